package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Client makes the settings for a client; nil when TLS is not enabled. Errors name the setting's
// last part, say CA_FILE.
func (t TLS) Client() (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	cfg := &tls.Config{}
	if key, err := t.fill(cfg); err != nil {
		return nil, fmt.Errorf("%s: %w", variable(key), err)
	}
	return cfg, nil
}

// fill returns the key of the setting that is wrong beside the error.
func (t TLS) fill(cfg *tls.Config) (key string, err error) {
	cfg.MinVersion, cfg.ServerName = tls.VersionTLS12, t.ServerName
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return "ca_file", cause(err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return "ca_file", errors.New("has no certificate in PEM")
		}
	}
	switch {
	case t.CertFile == "" && t.KeyFile == "":
		return "", nil
	case t.CertFile == "":
		return "cert_file", errors.New("is required beside KEY_FILE")
	case t.KeyFile == "":
		return "key_file", errors.New("is required beside CERT_FILE")
	}
	cert, err := os.ReadFile(t.CertFile)
	if err != nil {
		return "cert_file", cause(err)
	}
	private, err := os.ReadFile(t.KeyFile)
	if err != nil {
		return "key_file", cause(err)
	}
	pair, err := tls.X509KeyPair(cert, private)
	if err != nil {
		return "cert_file", fmt.Errorf("is no pair with KEY_FILE: %w", err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return "", nil
}

// cause is the reason alone: the file's name is said beside it.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return fmt.Errorf("cannot be read: %w", at.Err)
	}
	return err
}
