// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var july = time.Date(2026, 7, 10, 10, 0, 0, 123456789, time.FixedZone("WIB", 7*3600))

// The field names are the contract's, whatever the Go names are.
func TestRecordsOnTheWire(t *testing.T) {
	bytesOf := func(n int64) *int64 { return &n }
	for name, row := range map[string]struct {
		record any
		want   string
	}{
		"register": {
			Registration{Kind: KindNode, ID: "n1", Action: ActionRegister, Labels: map[string]string{"a": "b"}, Capacity: map[string]int64{CapacityCPUMillicores: 4000}, JoinToken: "once"},
			`{"kind":"node","id":"n1","action":"register","labels":{"a":"b"},"capacity":{"cpu_millicores":4000},"join_token":"once"}`,
		},
		"register, least": {
			Registration{Kind: KindCache, ID: "bank/valkey", Action: ActionDeregister, Labels: map[string]string{}, Capacity: map[string]int64{}},
			`{"kind":"cache","id":"bank/valkey","action":"deregister","labels":{},"capacity":{}}`,
		},
		"node-health": {
			NodeReport{Node: "n1", Status: HealthDegraded, Reasons: []string{"MemoryPressure"}, Labels: map[string]string{}, Workspaces: 3, Allocatable: Amounts{1, 2}, Usage: &Amounts{3, 4}},
			`{"node":"n1","status":"degraded","reasons":["MemoryPressure"],"labels":{},"workspaces":3,"allocatable":{"cpu_millicores":1,"memory_bytes":2},"usage":{"cpu_millicores":3,"memory_bytes":4}}`,
		},
		"node-health without usage": {
			NodeReport{Node: "n1", Status: HealthHealthy, Reasons: []string{}, Labels: map[string]string{}},
			`{"node":"n1","status":"healthy","reasons":[],"labels":{},"workspaces":0,"allocatable":{"cpu_millicores":0,"memory_bytes":0},"usage":null}`,
		},
		"metering": {
			UsageRecord{IdempotencyKey: IdempotencyKey("jkt", "u1", july), Slot: SlotName(july), Namespace: "bank", Workspace: "web", UID: "u1", CPUMillicoreSeconds: bytesOf(1), MemoryByteSeconds: bytesOf(2), StorageBytes: bytesOf(3), PodSeconds: 4},
			`{"idempotency_key":"jkt/u1/2026-07-10T03:00:00Z","slot":"2026-07-10T03:00:00Z","namespace":"bank","workspace":"web","uid":"u1","cpu_millicore_seconds":1,"memory_byte_seconds":2,"storage_bytes":3,"pod_seconds":4}`,
		},
		"metering of a node that was not measured": {
			UsageRecord{IdempotencyKey: "k", Slot: "s", Node: "n1", UID: "u2"},
			`{"idempotency_key":"k","slot":"s","node":"n1","uid":"u2","cpu_millicore_seconds":null,"memory_byte_seconds":null,"storage_bytes":null,"pod_seconds":0}`,
		},
		"workspace-status": {
			StatusRecord{Namespace: "bank", Workspace: "web", UID: "u1", Phase: "Ready", ReadyReplicas: 1, DesiredReplicas: 2, Conditions: []Condition{{"Ready", "True", "RolloutComplete"}}, ObservedGeneration: 5, RestartRequiredConsumed: 7},
			`{"namespace":"bank","workspace":"web","uid":"u1","phase":"Ready","ready_replicas":1,"desired_replicas":2,"conditions":[{"type":"Ready","status":"True","reason":"RolloutComplete"}],"observed_generation":5,"restart_required_consumed":7}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(row.record)
			if err != nil || string(got) != row.want {
				t.Errorf("got  %s (%v)\nwant %s", got, err, row.want)
			}
		})
	}
}

func TestEnvelopeOnTheWire(t *testing.T) {
	got, err := Envelope{Cluster: "jkt-premium-01", InstanceID: "i", Sequence: 42, SentAt: july}.encode()
	want := `{"protocol":"formspec-operator/1","cluster":"jkt-premium-01","instance_id":"i","sequence":42,"sent_at":"2026-07-10T03:00:00.123Z","records":[]}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s (%v)\nwant %s", got, err, want)
	}
	got, err = Envelope{Cluster: "c", InstanceID: "i", Sequence: 1, SentAt: july, Records: []json.RawMessage{[]byte(`{"a":1}`), []byte(`{"b":"é<"}`)}}.encode()
	if err != nil || !json.Valid(got) || !bytes.HasSuffix(got, []byte(`"records":[{"a":1},{"b":"é<"}]}`)) && !bytes.Contains(got, []byte(`\u003c`)) {
		t.Errorf("got %s (%v)", got, err)
	}
}

// Of RFC 8032, test 1, and openssl.
const (
	testSeed  = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
	testKey   = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
	testKeyID = "21fe31dfa154a261" // openssl dgst -sha256 of the public key, cut
	testPEM   = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
`
)

func TestIdentity(t *testing.T) {
	i, err := ParseIdentity([]byte("\n" + testPEM + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if i.PublicKey() != testKey || i.KeyID() != testKeyID {
		t.Errorf("public key %s, key id %s", i.PublicKey(), i.KeyID())
	}
	body := []byte(`{"records":[]}`)
	signature, _ := hex.DecodeString(i.Sign(body))
	key, _ := hex.DecodeString(testKey)
	again, _ := hex.DecodeString(i.Sign(body))
	if !ed25519.Verify(key, body, signature) || !bytes.Equal(signature, again) {
		t.Error("the signature is not one, or not always the same")
	}
	encoded, err := i.Encode()
	if err != nil || string(encoded) != testPEM {
		t.Errorf("encoded as %s (%v)", encoded, err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		if got := fmt.Sprintf(format, i); got != testKeyID {
			t.Errorf("%s prints %q", format, got)
		}
	}
	if other, err := GenerateIdentity(); err != nil || other.KeyID() == i.KeyID() || len(other.KeyID()) != 16 {
		t.Errorf("generated %v (%v)", other, err)
	}
}

func TestOpenSSLReadsTheSameKey(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("no openssl here")
	}
	name := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(name, []byte(testPEM), 0o600); err != nil {
		t.Fatal(err)
	}
	der, err := exec.CommandContext(t.Context(), openssl, "pkey", "-in", name, "-pubout", "-outform", "DER").Output()
	if err != nil || !strings.HasSuffix(hex.EncodeToString(der), testKey) {
		t.Errorf("openssl says %x (%v)", der, err)
	}
}

func TestIdentityThatIsNone(t *testing.T) {
	for name, row := range map[string]struct{ content, want string }{
		"empty":         {"", "no PEM block"},
		"seed":          {testSeed, "no PEM block"},
		"public key":    {"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n", "another type"},
		"encrypted":     {"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMC4CAQ==\n-----END ENCRYPTED PRIVATE KEY-----\n", "not encrypted"},
		"cut":           {"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v\n-----END PRIVATE KEY-----\n", "damaged"},
		"two":           {testPEM + testPEM, "more than one"},
		"an ECDSA key":  {"-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr88hb2\nOF/2NxApJCzGCEDdfSp6VQO30hyhRANCAAQRWz+jn65BtOMvdyHKcvjBeBSDZH2r\n1RTwjmYSi9R/zpBnuQ4EiMnCqfMPWiZqB4QdbAd0E7oH50VpuZ1P087G\n-----END PRIVATE KEY-----\n", "another kind"},
		"text after it": {testPEM + "password: hunter2", "more than one"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseIdentity([]byte(row.content))
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Fatalf("got %v, want %q", err, row.want)
			}
			if strings.Contains(err.Error(), "MC4C") || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), testSeed) {
				t.Errorf("the error quotes the key: %v", err)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute, 1000: 5 * time.Minute, math.MaxInt: 5 * time.Minute,
	} {
		spread := map[time.Duration]bool{}
		for range 50 {
			got := backoff(failures)
			spread[got] = true
			if got < want || got > want+want/5 {
				t.Fatalf("after %d failures %s, want %s and up to a fifth more", failures, got, want)
			}
		}
		if len(spread) < 10 {
			t.Errorf("after %d failures the wait is always the same", failures)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                              0,
		"120":                           2 * time.Minute,
		" 7 ":                           7 * time.Second,
		"0":                             0,
		"-5":                            0,
		"1.5":                           0,
		"soon":                          0,
		"86400":                         maxRetryAfter,
		"99999999999999999999999999":    maxRetryAfter,
		"Mon, 30 Nov 2026 12:01:00 GMT": time.Minute,
		"Mon, 30 Nov 2026 11:00:00 GMT": 0,
		"Mon, 30 Nov 2037 12:01:00 GMT": maxRetryAfter,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}

func TestClassify(t *testing.T) {
	for status, want := range map[int]outcome{
		200: accepted, 202: accepted, 204: accepted, 409: duplicate, 429: throttled, 503: throttled,
		400: refused, 401: refused, 403: refused, 404: refused, 408: refused, 413: refused, 422: refused,
		500: failed, 502: failed, 504: failed, 301: failed, 307: failed, 101: failed, 304: notModified,
	} {
		if got := classify(status); got != want {
			t.Errorf("%d is %s, want %s", status, got, want)
		}
	}
}
