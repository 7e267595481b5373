package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// testInstance returns an instance whose files and shared registry are the
// test's own.
func testInstance(t *testing.T, name string) *instance {
	t.Helper()
	c, err := openInstance(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(c.data, 0o700); err != nil {
		t.Fatal(err)
	}
	return c
}

func isolate(t *testing.T) {
	t.Helper()
	t.Setenv("DEVCLUSTER_DATA", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

func TestStateSurvives(t *testing.T) {
	isolate(t)
	c := testInstance(t, "one")
	if c.exists() {
		t.Error("an instance exists before it was up")
	}
	c.Ports = map[string]int{"etcd": 20001}
	c.Options = options{Components: []string{"etcd"}, Audit: true, KCMQPS: 7}
	if err := c.save(); err != nil {
		t.Fatal(err)
	}
	again := testInstance(t, "one")
	if !again.exists() || !reflect.DeepEqual(again.state, c.state) {
		t.Errorf("read %+v, want %+v", again.state, c.state)
	}
}

func TestNames(t *testing.T) {
	isolate(t)
	for name, valid := range map[string]bool{
		"a": true, "default": true, "test-2": true,
		"": false, "-a": false, "a-": false, "A": false, "../a": false, "a/b": false, "a b": false,
		strings.Repeat("a", 41): false,
	} {
		if _, err := openInstance(name); (err == nil) != valid {
			t.Errorf("openInstance(%q) = %v, want valid: %t", name, err, valid)
		}
	}
}

func TestDataRootOpenToOthersIsRefused(t *testing.T) {
	t.Setenv("DEVCLUSTER_DATA", "")
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	dir := filepath.Join(tmp, "formspec-devcluster-"+strconv.Itoa(os.Getuid()))
	if got, err := dataRoot(); err != nil || got != dir {
		t.Errorf("dataRoot() = %q, %v, want %q", got, err, dir)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := dataRoot(); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := dataRoot(); err == nil {
		t.Error("a directory that everybody can write was accepted")
	}
}

func TestWipeKeepsStrangersFiles(t *testing.T) {
	isolate(t)
	c := testInstance(t, "one")
	precious := c.path("precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.down(t.Context(), true, &progress{out: io.Discard}); err == nil {
		t.Error("a directory that is no instance's was wiped without complaint")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestCertificates(t *testing.T) {
	isolate(t)
	c := testInstance(t, "one")
	c.Ports = map[string]int{"kube-apiserver": 20001}
	if err := c.prepare(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(c.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}

	pool := x509.NewCertPool()
	ca, err := os.ReadFile(c.path("pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool.AppendCertsFromPEM(ca)
	verify := func(name string, opts x509.VerifyOptions) *x509.Certificate {
		pair, err := tls.LoadX509KeyPair(c.path("pki", name+".crt"), c.path("pki", name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		opts.Roots = pool
		if _, err := pair.Leaf.Verify(opts); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return pair.Leaf
	}
	for _, host := range []string{"127.0.0.1", "localhost", "kubernetes.default.svc", firstServiceIP} {
		verify("kube-apiserver", x509.VerifyOptions{DNSName: host})
	}
	client := x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, id := range c.identities() {
		leaf := verify(id.file, client)
		if leaf.Subject.CommonName != id.user || !reflect.DeepEqual(leaf.Subject.Organization, id.groups) {
			t.Errorf("%s: subject %v, want user %s, groups %v", id.file, leaf.Subject, id.user, id.groups)
		}
	}

	if err := c.prepare(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(c.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) {
		t.Error("a second start changed the credentials")
	}
}

func TestRenderKubeconfig(t *testing.T) {
	got, err := renderKubeconfig(kubeconfigData{
		Name: "devcluster-a", Server: "https://127.0.0.1:20001", User: "admin", CA: "Y2E=", Cert: "Y2VydA==", Key: "a2V5",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: v1
kind: Config
clusters:
- name: devcluster-a
  cluster:
    server: https://127.0.0.1:20001
    certificate-authority-data: Y2E=
users:
- name: admin
  user:
    client-certificate-data: Y2VydA==
    client-key-data: a2V5
contexts:
- name: devcluster-a
  context:
    cluster: devcluster-a
    user: admin
current-context: devcluster-a
`
	if string(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestPortsAreKeptAndDistinct(t *testing.T) {
	isolate(t)
	seen := map[int]string{}
	results := make(chan *instance)
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, name := range names {
		c := testInstance(t, name)
		go func() {
			if err := c.assignPorts(context.Background(), false); err != nil {
				t.Error(err)
			}
			results <- c
		}()
	}
	for range names {
		c := <-results
		for _, port := range portNames {
			p := c.Ports[port]
			if p < firstPort || p > lastPort {
				t.Errorf("%s of %s is %d", port, c.name, p)
			}
			if other := seen[p]; other != "" {
				t.Errorf("port %d went to %s and %s", p, c.name, other)
			}
			seen[p] = c.name
		}
		again := testInstance(t, c.name)
		if err := again.assignPorts(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again.Ports, c.Ports) {
			t.Errorf("ports of %s changed from %v to %v", c.name, c.Ports, again.Ports)
		}
	}
}

func TestPortTakenByAStranger(t *testing.T) {
	isolate(t)
	c := testInstance(t, "one")
	if err := c.assignPorts(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	before := c.Ports
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(before["etcd"])))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	if err := c.assignPorts(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c.Ports, before) {
		t.Error("ports changed under a running instance")
	}
	if err := c.assignPorts(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if c.Ports["etcd"] == before["etcd"] {
		t.Error("the taken port was kept")
	}
	if c.Ports["kube-apiserver"] != before["kube-apiserver"] {
		t.Error("a free port was replaced")
	}
}

func TestLockOutlivesTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locked")
	unlock, err := lockDir(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	waiting, got := make(chan struct{}), make(chan error, 1)
	go func() {
		second, err := lockDir(context.Background(), dir, func() { close(waiting) })
		if err == nil {
			_, err = os.Stat(dir)
			second()
		}
		got <- err
	}()
	<-waiting
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := <-got; err != nil {
		t.Errorf("the second lock is on a deleted directory: %v", err)
	}

	unlock, err = lockDir(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := lockDir(ctx, dir, nil); err == nil {
		t.Error("a held lock was given out")
	}
}
