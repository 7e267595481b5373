// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operator "github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/identity"
	"github.com/formspec/formspec-operator/test/clustercontrol"
)

// slotLength is the --metering-interval of these tests.
const slotLength = 10 * time.Second

// control is a Cluster Control that operators of the scenario report to, over mutual TLS.
type control struct {
	*scenario
	*clustercontrol.Server
	url  string
	cert string // a certificate that is good for both sides, and its own authority
	key  string
	open atomic.Bool // it answers
}

// control starts one that trusts nobody yet, and answers nobody until it does.
func (s *scenario) control() *control {
	s.Helper()
	dir := s.TempDir()
	s.must("make a certificate", clustercontrol.WriteCertificate(dir, time.Now(), "127.0.0.1"))
	c := &control{scenario: s, cert: filepath.Join(dir, clustercontrol.CertificateFile), key: filepath.Join(dir, clustercontrol.KeyFile)}
	server, err := clustercontrol.New(clustercontrol.Options{MeteringInterval: slotLength})
	s.must("start Cluster Control", err)
	c.Server = server
	wire := server.Wire()
	listener := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.open.Load() {
			panic(http.ErrAbortHandler)
		}
		wire.ServeHTTP(w, r)
	}))
	listener.TLS, err = clustercontrol.ServingTLS(c.cert, c.key, c.cert)
	s.must("set up TLS", err)
	listener.StartTLS()
	c.url = listener.URL
	s.Cleanup(func() {
		if err := server.Close(); err != nil { // before the listener, which waits for requests that hang
			s.Errorf("close Cluster Control: %v", err)
		}
		listener.Close()
	})
	return c
}

// reporter starts an operator that works in the scenario's namespace only, and reports. Its outbox has the name of the process.
func (c *control) reporter(name string, args ...string) *process {
	c.Helper()
	p := c.replica(name, append([]string{
		"--control-cluster-url", c.url, "--control-ca-file", c.cert, "--control-client-cert-file", c.cert, "--control-client-key-file", c.key,
		"--workspace-control-cluster-url", "https://control.example.com", "--metering-interval", slotLength.String(),
		"--outbox-dir", filepath.Join(c.dir, c.namespace, name),
	}, args...)...)
	return p
}

// trusts has the Cluster Control trust the key that is in the Secret.
func (c *control) trusts() {
	c.Helper()
	var key *operator.Identity
	c.eventually("the leader has made its identity", func() (err error) {
		key, err = identity.Read(c.Context(), c.kube, c.namespace)
		return err
	})
	public, err := clustercontrol.ParseKey(key.PublicKey())
	c.must("read the public key", err)
	c.must("trust it", c.Trust(clustercontrol.TrustedKey{Public: public, Cluster: clusterName}))
	c.open.Store(true)
}

// givenIdentity makes the identity before any operator does, as after a restore from a backup.
func (c *control) givenIdentity() {
	c.Helper()
	key, err := operator.GenerateIdentity()
	c.must("make a key", err)
	encoded, err := key.Encode()
	c.must("encode it", err)
	_, err = c.kube.CoreV1().Secrets(c.namespace).Create(c.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: identity.SecretName}, Data: map[string][]byte{identity.SecretKey: encoded},
	}, metav1.CreateOptions{})
	c.must("create the identity", err)
	c.trusts()
}

// hears waits until Cluster Control knows something.
func (c *control) hears(what string, check func(clustercontrol.State) error) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	last := errors.New("nothing was asked")
	if c.Wait(ctx, func(state clustercontrol.State) bool {
		last = check(state)
		return last == nil
	}) != nil {
		c.Fatalf("Cluster Control does not hear that %s: %v", what, last)
	}
}

// kept returns an error if the contract was broken.
func (c *control) kept() error {
	if violations := c.State().Violations; len(violations) > 0 {
		return fmt.Errorf("the contract was broken %d times: %+v", len(violations), violations[:min(5, len(violations))])
	}
	return nil
}

// verified checks that every body was signed by the trusted key, and that none of the texts is in any.
func (c *control) verified(texts ...string) {
	c.Helper()
	captures, err := c.Captures()
	c.must("read what was captured", err)
	if len(captures) == 0 {
		c.Error("nothing was captured")
	}
	for _, capture := range captures {
		if !capture.Verified {
			c.Errorf("capture %d at %s is not verified: %+v", capture.ID, capture.Endpoint, capture.Verdict)
		}
		for _, text := range texts {
			if strings.Contains(string(capture.Body), text) || strings.Contains(string(capture.Body), hex.EncodeToString([]byte(text))) {
				c.Errorf("%q was sent to %s: %s", text, capture.Endpoint, capture.Body)
			}
		}
	}
}

// heard returns the status of a Workspace.
func heard(state clustercontrol.State, name string) (clustercontrol.Workspace, error) {
	for _, w := range state.Workspaces {
		if w.Name == name {
			return w, nil
		}
	}
	return clustercontrol.Workspace{}, fmt.Errorf("nothing is known of %s", name)
}

// registered returns an error unless a registration is there, or is not.
func registered(state clustercontrol.State, kind, id string, want bool) error {
	for _, r := range state.Registrations {
		if r.Kind == kind && r.ID == id {
			if !want {
				return fmt.Errorf("%s %s is registered: %+v", kind, id, r)
			}
			return nil
		}
	}
	if want {
		return fmt.Errorf("%s %s is not registered", kind, id)
	}
	return nil
}

// alone ends the shared operator for the test, and lets others lead in the scenario's namespace.
func (s *scenario) alone() {
	s.Helper()
	s.endMain(syscall.SIGTERM)
	s.Cleanup(s.startMain)
	s.allowLeases()
}

// kill ends a process as the kernel does, and waits until it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// metric is the value of a metric without a look at anything else. Empty: it has none.
func (p *process) metric(s *scenario, name string) string {
	s.Helper()
	for line := range strings.Lines(p.scrape(s)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
