// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key, a.pem, _ = a.make(name, nil)
	return a
}

// make makes a certificate of that name, of the authority itself if parent is nil.
func (a *authority) make(name string, parent *authority) (*x509.Certificate, *ecdsa.PrivateKey, []byte, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"control.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	signer, signerKey := template, key
	if parent == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	} else {
		signer, signerKey = parent.cert, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, &key.PublicKey, signerKey)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	encodedKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encodedKey})
}

// issue returns a certificate and its key, in PEM.
func (a *authority) issue(name string) (certificate, key []byte) {
	a.t.Helper()
	_, _, certificate, key = a.make(name, a)
	return certificate, key
}

// secureServer notes who its clients are. It trusts those of the authority.
type secureServer struct {
	*httptest.Server
	mu      sync.Mutex
	clients []string
	conns   map[string]bool
	closed  chan struct{} // gets one for each connection that the client has closed
}

func newSecureServer(t *testing.T, server, clients *authority) *secureServer {
	t.Helper()
	s := &secureServer{conns: map[string]bool{}, closed: make(chan struct{}, 100)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		name := ""
		if len(r.TLS.PeerCertificates) > 0 {
			name = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		s.clients, s.conns[r.RemoteAddr] = append(s.clients, name), true
		w.WriteHeader(http.StatusAccepted)
	}))
	cert, key := server.issue("server")
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	if clients != nil {
		s.TLS.ClientAuth, s.TLS.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		s.TLS.ClientCAs.AddCert(clients.cert)
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			s.closed <- struct{}{}
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// files writes the parts of TLSFiles.
func writeFiles(t *testing.T, dir string, content map[string][]byte) {
	t.Helper()
	for name, b := range content {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func testIdentity(t *testing.T) func() (*Identity, error) {
	t.Helper()
	key, err := ParseIdentity([]byte(testPEM))
	if err != nil {
		t.Fatal(err)
	}
	return func() (*Identity, error) { return key, nil }
}

func newTestClient(t *testing.T, o Options) (*Client, *strings.Builder) {
	t.Helper()
	var logged strings.Builder
	o.Identity = testIdentity(t)
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&logged))))
	c, err := NewClient(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c, &logged
}

func TestMutualTLSWithFilesThatChange(t *testing.T) {
	ca, clients := newAuthority(t, "server authority"), newAuthority(t, "client authority")
	s := newSecureServer(t, ca, clients)
	dir := t.TempDir()
	cert, key := clients.issue("first")
	writeFiles(t, dir, map[string][]byte{"ca.crt": ca.pem, "tls.crt": cert, "tls.key": key})
	files := TLSFiles{CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	c, logged := newTestClient(t, Options{URL: s.URL, TLS: files})
	post := func(want outcome) {
		t.Helper()
		if a := c.post(t.Context(), Register, []byte("{}")); a.outcome != want {
			t.Fatalf("%s: %v, want %s", a.outcome, a.err, want)
		}
	}
	post(accepted)
	post(accepted)
	if len(s.conns) != 1 {
		t.Errorf("two requests took %d connections", len(s.conns))
	}

	// In the midst of a rotation the certificate is new and the key is not.
	cert, key = clients.issue("second")
	writeFiles(t, dir, map[string][]byte{"tls.crt": cert})
	post(accepted)
	post(accepted)
	if n := strings.Count(logged.String(), "cannot be used"); n != 1 {
		t.Errorf("said %d times that the files do not fit:\n%s", n, logged)
	}
	writeFiles(t, dir, map[string][]byte{"tls.key": key})
	post(accepted)
	select {
	case <-s.closed: // the connection of the first certificate does not stay open
	case <-time.After(30 * time.Second):
		t.Error("the connection of the previous certificate is still open")
	}
	if want := []string{"first", "first", "first", "first", "second"}; !slices.Equal(s.clients, want) {
		t.Errorf("the clients were %q, want %q", s.clients, want)
	}

	// A certificate that the server does not trust, and one that it does.
	cert, key = ca.issue("stranger")
	writeFiles(t, dir, map[string][]byte{"tls.crt": cert, "tls.key": key})
	post(unreachable)
	cert, key = clients.issue("third")
	writeFiles(t, dir, map[string][]byte{"tls.crt": cert, "tls.key": key})
	post(accepted)

	// The authority of the server goes, and comes back.
	writeFiles(t, dir, map[string][]byte{"ca.crt": clients.pem})
	post(unreachable)
	if err := os.Remove(filepath.Join(dir, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	post(unreachable)
	writeFiles(t, dir, map[string][]byte{"ca.crt": ca.pem})
	post(accepted)
	if strings.Contains(logged.String(), "PRIVATE") {
		t.Error("a key was logged")
	}
}

func TestServerOfAnUnknownAuthority(t *testing.T) {
	s := newSecureServer(t, newAuthority(t, "nobody"), nil)
	c, _ := newTestClient(t, Options{URL: s.URL})
	if a := c.post(t.Context(), Register, nil); a.outcome != unreachable || !strings.Contains(a.reason(), "unknown authority") {
		t.Errorf("%s: %s", a.outcome, a.reason())
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	ca := newAuthority(t, "a")
	cert, key := ca.issue("c")
	writeFiles(t, dir, map[string][]byte{"empty": nil, "crt": cert, "key": key, "other": []byte("not PEM")})
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, row := range map[string]struct {
		options Options
		want    string
	}{
		"http":          {Options{URL: "http://control.example"}, "use https://, or set --dev"},
		"no host":       {Options{URL: "https:///x"}, "with a host"},
		"another":       {Options{URL: "ftp://control.example"}, "must be an https://"},
		"credentials":   {Options{URL: "https://user:hunter2@control.example"}, "must not contain credentials"},
		"query":         {Options{URL: "https://control.example?a=b"}, "neither query nor fragment"},
		"no CA":         {Options{URL: "https://c", TLS: TLSFiles{CA: in("absent")}}, "no such file"},
		"CA without":    {Options{URL: "https://c", TLS: TLSFiles{CA: in("empty")}}, "holds no certificate"},
		"cert alone":    {Options{URL: "https://c", TLS: TLSFiles{Cert: in("crt")}}, "each needs the other"},
		"key alone":     {Options{URL: "https://c", TLS: TLSFiles{Key: in("key")}}, "each needs the other"},
		"cert is other": {Options{URL: "https://c", TLS: TLSFiles{Cert: in("other"), Key: in("key")}}, "the client certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			row.options.Identity = testIdentity(t)
			_, err := NewClient(t.Context(), row.options)
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
	if _, err := NewClient(t.Context(), Options{URL: "https://c"}); err == nil {
		t.Error("a client without an identity")
	}
}

// A signed request goes where the operator was told to send it, and nowhere else.
func TestRedirectsAreNotFollowed(t *testing.T) {
	followed := false
	mux := http.NewServeMux()
	mux.HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { followed = true })
	for _, status := range []int{301, 302, 303, 307, 308} {
		mux.HandleFunc("/"+strconv.Itoa(status)+"/v1/operator/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", status)
		})
	}
	s := httptest.NewServer(mux)
	defer s.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		c, _ := newTestClient(t, Options{URL: s.URL + "/" + strconv.Itoa(status), AllowHTTP: true})
		a := c.post(t.Context(), Register, []byte("{}"))
		if a.outcome != failed || a.status != status || followed || !strings.Contains(a.reason(), "check the URL") {
			t.Errorf("%d: %s, followed: %t, %s", status, a.outcome, followed, a.reason())
		}
	}
}

// A proxy is asked to connect, sees nothing of what is inside, and does not concern who is in NO_PROXY.
func TestProxy(t *testing.T) {
	ca := newAuthority(t, "server authority")
	s := newSecureServer(t, ca, nil)
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.Host)
		there, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer there.Close()
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer here.Close()
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(there, here) }()
		_, _ = io.Copy(here, there)
	}))
	defer proxy.Close()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, ca.pem, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", "")
	c, _ := newTestClient(t, Options{URL: "https://control.example", TLS: TLSFiles{CA: file}})
	if a := c.post(t.Context(), Register, []byte("{}")); a.outcome != accepted || len(asked) != 1 || asked[0] != "CONNECT control.example:443" {
		t.Errorf("%s (%v), the proxy was asked %q", a.outcome, a.err, asked)
	}
	c.CloseIdleConnections()
	t.Setenv("NO_PROXY", ".example")
	var dialled string
	c, _ = newTestClient(t, Options{URL: "https://control.example", Dial: func(_ context.Context, _, address string) (net.Conn, error) {
		dialled = address
		return nil, errors.New("no route to host")
	}})
	if a := c.post(t.Context(), Register, []byte("{}")); a.outcome != unreachable || len(asked) != 1 || dialled != "control.example:443" {
		t.Errorf("%s (%v), the proxy was asked %q, %s was dialled", a.outcome, a.err, asked, dialled)
	}
}

func TestSignedHeaders(t *testing.T) {
	var header http.Header
	var target string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { header, target = r.Header, r.Method+" "+r.URL.String() }))
	defer s.Close()
	c, _ := newTestClient(t, Options{URL: s.URL + "/cc/", AllowHTTP: true})
	key, _ := testIdentity(t)()
	c.post(t.Context(), WorkspaceStatus, []byte(`{"a":1}`))
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Formspec-Key-Id": testKeyID, "Formspec-Signature": key.Sign([]byte(`{"a":1}`)),
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if target != "POST /cc/v1/operator/workspace-status" || !strings.HasPrefix(header.Get("User-Agent"), "formspec-operator/") {
		t.Errorf("%s by %s", target, header.Get("User-Agent"))
	}
	c.do(t.Context(), DeployStatus, http.MethodGet, "after=3", nil, nil, 100)
	if target != "GET /cc/v1/operator/deploy-status?after=3" || header.Get("Formspec-Signature") != key.Sign(nil) || header.Get("Content-Type") != "" {
		t.Errorf("%s with %v", target, header)
	}
}
