package webhook

import (
	"strings"
	"testing"
	"time"
)

// The example of the specification's reference implementations.
const exampleSecret = "whsec_plJ3nmyCDGBKInavdOK15jsl"

func TestASignatureIsThatOfStandardWebhooks(t *testing.T) {
	s, err := newSecrets([]string{"partner-a=" + exampleSecret})
	if err == nil {
		t.Fatal("18 bytes are a key, want at least 24")
	}
	if strings.Contains(err.Error(), exampleSecret[10:]) {
		t.Errorf("the error shows the key: %v", err)
	}
	// The example's key is shorter than the specification allows, so it is used past newSecrets.
	key := []byte("\xa6\x52\x77\x9e\x6c\x82\x0c\x60\x4a\x22\x76\xaf\x74\xe2\xb5\xe6\x3b\x25")
	timestamp, signature := sign([][]byte{key}, "msg_loFOjxBNrRLzqYUf", time.Unix(1731705121, 0), []byte(`{"event_type":"ping","data":{"success":true}}`))
	if timestamp != "1731705121" || signature != "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=" {
		t.Errorf("timestamp %s, signature %s", timestamp, signature)
	}
	if s["partner-a"] != nil {
		t.Error("a key that was refused is kept")
	}
}

func TestASecretThatIsReplacedSignsBesideItsSuccessor(t *testing.T) {
	s, err := newSecrets([]string{
		"partner=whsec_" + strings.Repeat("AAAA", 8), "partner=whsec_" + strings.Repeat("BBBB", 8), " other=whsec_" + strings.Repeat("CCCC", 8),
	})
	if err != nil {
		t.Fatal(err)
	}
	_, signatures := sign(s["partner"], "id", time.Unix(1, 0), nil)
	if parts := strings.Split(signatures, " "); len(parts) != 2 || parts[0] == parts[1] {
		t.Errorf("signatures %q", signatures)
	}
	if len(s["other"]) != 1 {
		t.Errorf("other has %d keys", len(s["other"]))
	}
}

func TestSecretsThatAreNoneAreAllNamedAtOnceAndNotShown(t *testing.T) {
	_, err := newSecrets([]string{"hidden", "a=hidden", "b=whsec_hidden!", "c d=whsec_" + strings.Repeat("AAAA", 8)})
	if err == nil || strings.Contains(err.Error(), "hidden") || len(strings.Split(err.Error(), "\n")) != 4 {
		t.Errorf("errors: %v", err)
	}
}
