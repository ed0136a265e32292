package local

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certs are PEM files of a certificate authority that lives for one test, of
// a server on localhost and of a client. Keys are PKCS#8, unencrypted.
type Certs struct {
	CA                    string
	ServerCert, ServerKey string
	ClientCert, ClientKey string
}

// NewCerts writes fresh certificates into dir, which it makes.
func NewCerts(dir string) (Certs, error) {
	c, err := newCerts(dir)
	if err != nil {
		return Certs{}, fmt.Errorf("make certificates: %w", err)
	}
	return c, nil
}

func newCerts(dir string) (Certs, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Certs{}, err
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	c := Certs{CA: at("ca.pem"), ServerCert: at("server.pem"), ServerKey: at("server.key"), ClientCert: at("client.pem"), ClientKey: at("client.key")}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Certs{}, err
	}
	ca := template("stepwell test CA", 1)
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	if err := sign(c.CA, ca, ca, &caKey.PublicKey, caKey); err != nil {
		return Certs{}, err
	}
	server := template("localhost", 2)
	server.DNSNames, server.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	// A Kafka broker is also the client of its peers.
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	client := template("actor", 3)
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if err := leaf(c.ServerCert, c.ServerKey, server, ca, caKey); err != nil {
		return Certs{}, err
	}
	return c, leaf(c.ClientCert, c.ClientKey, client, ca, caKey)
}

func template(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

// leaf makes a key and a certificate of it that ca signs.
func leaf(certFile, keyFile string, cert, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(keyFile, "PRIVATE KEY", der); err != nil {
		return err
	}
	return sign(certFile, cert, ca, &key.PublicKey, caKey)
}

// sign writes the certificate for key as PEM; by is the key of parent.
func sign(file string, cert, parent *x509.Certificate, key *ecdsa.PublicKey, by *ecdsa.PrivateKey) error {
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key, by)
	if err != nil {
		return err
	}
	return writePEM(file, "CERTIFICATE", der)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
