package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/config"
)

// pair writes a certificate that signs itself, and its key.
func pair(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"h"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	write(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	return cert, key
}

func TestTLSFilesAreReadAtTheStart(t *testing.T) {
	cert, key := pair(t)
	_, other := pair(t)
	tests := []struct {
		name string
		tls  config.TLS
		says string
	}{
		{"off", config.TLS{CertFile: "/nowhere"}, ""},
		{"only on", config.TLS{Enabled: true}, ""},
		{"everything", config.TLS{Enabled: true, CAFile: cert, CertFile: cert, KeyFile: key, ServerName: "h"}, ""},
		{"an authority that is a key", config.TLS{Enabled: true, CAFile: key}, "CA_FILE: has no certificate"},
		{"an authority that is not there", config.TLS{Enabled: true, CAFile: "/nowhere"}, "CA_FILE: cannot be read"},
		{"a certificate without a key", config.TLS{Enabled: true, CertFile: cert}, "KEY_FILE: is required"},
		{"a key without a certificate", config.TLS{Enabled: true, KeyFile: key}, "CERT_FILE: is required"},
		{"a key that is not there", config.TLS{Enabled: true, CertFile: cert, KeyFile: "/nowhere"}, "KEY_FILE: cannot be read"},
		{"another's key", config.TLS{Enabled: true, CertFile: cert, KeyFile: other}, "CERT_FILE: is no pair"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.tls.Client()
			switch {
			case test.says != "" && (err == nil || !strings.HasPrefix(err.Error(), test.says)):
				t.Errorf("got %v, want %s", err, test.says)
			case test.says == "" && (err != nil || (got != nil) != test.tls.Enabled):
				t.Errorf("got %v, %v", got, err)
			case got != nil && (got.ServerName != test.tls.ServerName || (got.RootCAs != nil) != (test.tls.CAFile != "") || (len(got.Certificates) == 1) != (test.tls.CertFile != "")):
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestAllThatIsWrongWithTLSFilesIsToldAtOnce(t *testing.T) {
	for environ, want := range map[string][]string{
		"KAFKA_TLS_CA_FILE=/nowhere KAFKA_TLS_CERT_FILE=/nowhere": {
			`KAFKA_TLS_CA_FILE: "/nowhere" cannot be read`, `KAFKA_TLS_CERT_FILE: "/nowhere" cannot be read`, "KAFKA_TLS_KEY_FILE: is required beside CERT_FILE",
		},
		"KAFKA_TLS_KEY_FILE=/nowhere": {"KAFKA_TLS_CERT_FILE: is required beside KEY_FILE", `KAFKA_TLS_KEY_FILE: "/nowhere" cannot be read`},
		"KAFKA_TLS_CERT_FILE=/nowhere KAFKA_TLS_KEY_FILE=/nowhere": {
			`KAFKA_TLS_CERT_FILE: "/nowhere" cannot be read`, `KAFKA_TLS_KEY_FILE: "/nowhere" cannot be read`,
		},
	} {
		_, err := config.Load(source(append(strings.Fields(environ), "KAFKA_TLS_ENABLED=true")...))
		text := fmt.Sprint(err)
		for _, mistake := range want {
			if !strings.Contains(text, mistake) {
				t.Errorf("%s: no %s in %s", environ, mistake, text)
			}
		}
		if n := strings.Count(text, "KAFKA_TLS_"); n < len(want) || strings.Count(text, "\n") != len(want) {
			t.Errorf("%s: %s", environ, text)
		}
	}
}
