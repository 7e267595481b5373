// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	cc "github.com/formspec/formspec-operator/test/clustercontrol"
)

const (
	cluster       = "jkt-premium-01"
	firstInstance = "6f1e0c5a-58f0-4c0e-9d53-000000000001"
	otherInstance = "6f1e0c5a-58f0-4c0e-9d53-000000000002"
)

// start is when every test begins.
func start() time.Time { return time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC) }

// Good records, one of each.
const (
	registration = `{"kind":"node","id":"node-a","action":"register","labels":{"zone":"a"},"capacity":{"cpu_millicores":4000}}`
	health       = `{"node":"node-a","status":"healthy","reasons":[],"labels":{},"workspaces":3,` +
		`"allocatable":{"cpu_millicores":4000,"memory_bytes":8589934592},"usage":null}`
	status = `{"namespace":"tenant","workspace":"shop","uid":"u1","phase":"Ready","ready_replicas":2,"desired_replicas":2,` +
		`"conditions":[{"type":"Ready","status":"True","reason":"Available"}],"observed_generation":3}`
)

func usage(uid, slot string, cpu int) string {
	return fmt.Sprintf(`{"idempotency_key":"%s/%s/%s","slot":%q,"namespace":"tenant","workspace":"shop","uid":%q,`+
		`"cpu_millicore_seconds":%d,"memory_byte_seconds":1024,"storage_bytes":null,"pod_seconds":300}`, cluster, uid, slot, slot, uid, cpu)
}

// operator is one that reports to a server under test. What it sends is right unless a test says otherwise.
type operator struct {
	t        *testing.T
	url      string
	client   *http.Client
	key      ed25519.PrivateKey
	instance string
	sequence map[cc.Endpoint]int
}

func newKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func trusted(key ed25519.PrivateKey) cc.TrustedKey {
	public, _ := key.Public().(ed25519.PublicKey)
	return cc.TrustedKey{Public: public, Cluster: cluster}
}

// serve starts a server that trusts an operator, and returns both.
func serve(t *testing.T, options cc.Options) (*cc.Server, *operator) {
	t.Helper()
	key := newKey(1)
	if options.Clock == nil {
		options.Clock = clocktesting.NewFakePassiveClock(start())
	}
	if !options.TrustFirstUse {
		options.Keys = append(options.Keys, trusted(key))
	}
	server, err := cc.New(options)
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(server.Wire())
	t.Cleanup(func() {
		if err := server.Close(); err != nil { // before the listener, which waits for requests that hang
			t.Error(err)
		}
		listener.Close()
	})
	return server, &operator{
		t: t, url: listener.URL, client: listener.Client(), key: key, instance: firstInstance, sequence: map[cc.Endpoint]int{},
	}
}

// as is the same operator in another process.
func (o *operator) as(instance string) *operator {
	other := *o
	other.instance, other.sequence = instance, map[cc.Endpoint]int{}
	return &other
}

// envelope wraps records under a number.
func (o *operator) envelope(sequence int, records ...string) []byte {
	return fmt.Appendf(nil, `{"protocol":"formspec-operator/1","cluster":%q,"instance_id":%q,"sequence":%d,"sent_at":%q,"records":[%s]}`,
		cluster, o.instance, sequence, start().Format(time.RFC3339), strings.Join(records, ","))
}

// report sends records under the next number.
func (o *operator) report(endpoint cc.Endpoint, records ...string) (status int) {
	o.t.Helper()
	o.sequence[endpoint]++
	status, _ = o.post(endpoint, o.envelope(o.sequence[endpoint], records...))
	return status
}

// post signs a body and sends it. Changes may alter the request afterwards.
func (o *operator) post(endpoint cc.Endpoint, body []byte, changes ...func(*http.Request)) (status int, message string) {
	o.t.Helper()
	got, err := o.try(http.MethodPost, string(endpoint), body, changes...)
	if err != nil {
		o.t.Fatal(err)
	}
	return got.status, got.body
}

// reply is what the server answered.
type reply struct {
	status int
	header http.Header
	body   string
}

func (o *operator) try(method, path string, body []byte, changes ...func(*http.Request)) (reply, error) {
	o.t.Helper()
	request, err := http.NewRequestWithContext(o.t.Context(), method, o.url+"/v1/operator/"+path, bytes.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	request.Header.Set("Formspec-Key-Id", trusted(o.key).ID())
	request.Header.Set("Formspec-Signature", hex.EncodeToString(ed25519.Sign(o.key, body)))
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, change := range changes {
		change(request)
	}
	response, err := o.client.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(content)}, err
}

// poll asks for deploy-status.
func (o *operator) poll(after int64, etag string) (got reply, answer deployAnswer) {
	o.t.Helper()
	got, err := o.try(http.MethodGet, fmt.Sprintf("deploy-status?after=%d", after), nil, func(r *http.Request) {
		if etag != "" {
			r.Header.Set("If-None-Match", etag)
		}
	})
	if err != nil {
		o.t.Fatal(err)
	}
	if got.status == http.StatusOK {
		if err := json.Unmarshal([]byte(got.body), &answer); err != nil {
			o.t.Fatalf("%q: %v", got.body, err)
		}
	}
	return got, answer
}

// deployAnswer is §5.5 again, as a client has it.
type deployAnswer struct {
	Cursor int64
	Items  []struct {
		Namespace, Workspace, Phase, Version string
		BinaryHash                           string `json:"binary_hash"`
		ArtifactID                           string `json:"artifact_id"`
	}
}

// wantViolations fails unless exactly these kinds of them were found, in this order.
func wantViolations(t *testing.T, server *cc.Server, want ...cc.Kind) {
	t.Helper()
	var got []cc.Kind
	violations := server.State().Violations
	for _, v := range violations {
		got = append(got, v.Kind)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got the violations %v, want %v:\n%+v", got, want, violations)
	}
}

func wantStatus(t *testing.T, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("the answer is %d, want %d", got, want)
	}
}
