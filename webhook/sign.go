package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// secrets are keys by name, to sign requests as Standard Webhooks 1.0.0 says. A name has several
// while one replaces another: then a request has a signature by each. They are in no message, no
// log and no error.
type secrets map[string][][]byte

// Keys of Standard Webhooks have 24 to 64 bytes.
const (
	secretPrefix = "whsec_"
	minSecret    = 24
	maxSecret    = 64
)

// newSecrets reads entries name=whsec_…. No error shows what may be a key, not even where an entry
// has no name before it.
func newSecrets(entries []string) (secrets, error) {
	s := secrets{}
	var errs []error
	for i, entry := range entries {
		name, value, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok || !isName(name) {
			errs = append(errs, fmt.Errorf("secret %d must look like partner-a=whsec_…, with a name of a-z, 0-9, - and _", i+1))
			continue
		}
		encoded, ok := strings.CutPrefix(value, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) < minSecret || len(key) > maxSecret {
			errs = append(errs, fmt.Errorf("secret %q must be whsec_ and base64 of %d to %d random bytes", name, minSecret, maxSecret))
			continue
		}
		s[name] = append(s[name], key)
	}
	return s, errors.Join(errs...)
}

// isName says whether secrets and workflows may be called so.
func isName(s string) bool {
	return s != "" && len(s) <= maxName && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
}

// maxName bounds names of secrets and workflows, in bytes.
const maxName = 60

// Headers of Standard Webhooks.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// sign returns the timestamp and the signatures of a request that is sent at a time: base64 of
// HMAC-SHA256 over id.timestamp.body, with v1, before it, separated by spaces.
func sign(keys [][]byte, id string, at time.Time, body []byte) (timestamp, signatures string) {
	timestamp = strconv.FormatInt(at.Unix(), 10)
	all := make([]string, 0, len(keys))
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return timestamp, strings.Join(all, " ")
}
