package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Client makes the settings for a client; nil when TLS is not enabled. Each line of an error begins
// with the setting's last part, say CA_FILE.
func (t TLS) Client() (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	var errs []error
	cfg := t.client(func(key string, err error) { errs = append(errs, fmt.Errorf("%s: %w", variable(key), err)) })
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return cfg, nil
}

// client tells all that is wrong, with the key of each setting; the result is of use where nothing
// is.
func (t TLS) client(wrong func(key string, err error)) *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	read := func(key, file, beside string) []byte { // nil: it told what is wrong
		if file == "" {
			wrong(key, errors.New("is required beside "+beside))
			return nil
		}
		data, err := os.ReadFile(file)
		if err != nil {
			wrong(key, cause(err))
			return nil
		}
		return data
	}
	if t.CAFile != "" {
		cfg.RootCAs = x509.NewCertPool()
		if pem := read("ca_file", t.CAFile, ""); pem != nil && !cfg.RootCAs.AppendCertsFromPEM(pem) {
			wrong("ca_file", errors.New("has no certificate in PEM"))
		}
	}
	if t.CertFile == "" && t.KeyFile == "" {
		return cfg
	}
	cert, private := read("cert_file", t.CertFile, "KEY_FILE"), read("key_file", t.KeyFile, "CERT_FILE")
	if cert == nil || private == nil {
		return cfg
	}
	pair, err := tls.X509KeyPair(cert, private)
	if err != nil {
		wrong("cert_file", fmt.Errorf("is no pair with KEY_FILE: %w", err))
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg
}

// cause is the reason alone: the file's name is said beside it.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return fmt.Errorf("cannot be read: %w", at.Err)
	}
	return err
}
