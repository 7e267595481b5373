package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"slices"
	"time"
)

// An identity is who a component is to the API server. The names are those that
// Kubernetes' built-in roles are bound to.
type identity struct {
	file   string // of the certificate, key and kubeconfig
	user   string
	groups []string
}

var controlPlaneIdentities = []identity{
	{file: "admin", user: "devcluster-admin", groups: []string{"system:masters"}},
	{file: "kube-controller-manager", user: "system:kube-controller-manager"},
	{file: "kube-scheduler", user: "system:kube-scheduler"},
	// kwok plays kubelet for every simulated node, which no built-in role allows.
	{file: "kwok", user: "devcluster-kwok", groups: []string{"system:masters"}},
}

// frontProxyCA is an authority of its own: whoever has a certificate of it may
// speak for anybody.
const (
	frontProxyCA   = "front-proxy-ca"
	frontProxyUser = "front-proxy-client"
)

// identities are those of the control plane and of the real node, if any.
func (c *instance) identities() []identity {
	node := c.Options.RealNode
	if node == nil {
		return controlPlaneIdentities
	}
	return append(slices.Clone(controlPlaneIdentities),
		identity{file: "kubelet", user: "system:node:" + node.Name, groups: []string{"system:nodes"}},
		identity{file: "kube-proxy", user: "system:kube-proxy"},
		// The API server towards the kubelet, for logs and exec.
		identity{file: "kubelet-client", user: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}},
	)
}

// writePKI creates the certificate authority, the API server's certificate, the
// service account key and the clients' certificates: those that are missing, so
// that credentials survive a restart.
func (c *instance) writePKI() error {
	if err := os.MkdirAll(c.path("pki"), 0o700); err != nil {
		return err
	}
	ca, err := c.authority("ca")
	if err != nil {
		return err
	}
	addresses := []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(firstServiceIP)}
	if node := c.Options.RealNode; node != nil {
		addresses = append(addresses, net.ParseIP(node.Address))
	}
	if err := c.issue(ca, "kube-apiserver", &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
		},
		IPAddresses: addresses,
	}); err != nil {
		return err
	}
	for _, id := range c.identities() {
		if err := c.issue(ca, id.file, &x509.Certificate{
			Subject:     pkix.Name{CommonName: id.user, Organization: id.groups},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}); err != nil {
			return err
		}
	}
	if c.Options.RealNode != nil {
		if err := c.writeFrontProxy(); err != nil {
			return err
		}
	}
	return c.serviceAccountKey()
}

// writeFrontProxy creates what the API server shows to the servers behind it.
func (c *instance) writeFrontProxy() error {
	ca, err := c.authority(frontProxyCA)
	if err != nil {
		return err
	}
	return c.issue(ca, frontProxyUser, &x509.Certificate{
		Subject:     pkix.Name{CommonName: frontProxyUser},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// authority is a certificate that can sign others.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func (c *instance) authority(name string) (*authority, error) {
	if _, err := os.Stat(c.path("pki", name+".crt")); errors.Is(err, os.ErrNotExist) {
		if err := c.issue(nil, name, &x509.Certificate{
			Subject:               pkix.Name{CommonName: "devcluster " + c.name + " " + name},
			KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
			BasicConstraintsValid: true,
			IsCA:                  true,
		}); err != nil {
			return nil, err
		}
	}
	certDER, err := readPEM(c.path("pki", name+".crt"))
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, err
	}
	keyDER, err := readPEM(c.path("pki", name+".key"))
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key}, nil
}

// issue writes pki/NAME.crt and pki/NAME.key unless they exist. Without an
// authority the certificate signs itself.
func (c *instance) issue(ca *authority, name string, template *x509.Certificate) error {
	if _, err := os.Stat(c.path("pki", name+".crt")); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return err
	}
	template.KeyUsage |= x509.KeyUsageDigitalSignature
	template.NotBefore = time.Now().Add(-time.Hour) // clocks may differ a little
	template.NotAfter = time.Now().AddDate(1, 0, 0)
	parent, signer := template, crypto.Signer(key)
	if ca != nil {
		parent, signer = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return err
	}
	// The key first: a certificate on disk then always has its key.
	if err := writeKey(c.path("pki", name+".key"), key); err != nil {
		return err
	}
	return writePEM(c.path("pki", name+".crt"), "CERTIFICATE", der, 0o644)
}

// serviceAccountKey signs the tokens of service accounts.
func (c *instance) serviceAccountKey() error {
	path := c.path("pki", "service-account.key")
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return writeKey(path, key)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der, 0o600)
}

func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	return writeFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}

func readPEM(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", path)
	}
	return block.Bytes, nil
}
