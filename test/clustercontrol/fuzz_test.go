// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
)

// FuzzDecode feeds an endpoint whatever there is. What the decoder lets through must be JSON, say who sent it, and fit the
// types: the schema and the types are two descriptions of one thing.
func FuzzDecode(f *testing.F) {
	const head = `{"protocol":"formspec-operator/1","cluster":"c","instance_id":"6f1e0c5a-58f0-4c0e-9d53-000000000001",` +
		`"sequence":1,"sent_at":"2026-07-10T10:00:00Z","records":[`
	for i, record := range []string{
		`{"kind":"node","id":"a","action":"register","labels":{"a":"b"},"capacity":{"c":1},"join_token":"t"}`,
		`{"node":"a","status":"healthy","reasons":["r"],"labels":{},"workspaces":3,` +
			`"allocatable":{"cpu_millicores":1,"memory_bytes":2},"usage":{"cpu_millicores":1,"memory_bytes":2}}`,
		`{"idempotency_key":"c/u/2026-07-10T10:00:00Z","slot":"2026-07-10T10:00:00Z","namespace":"n","workspace":"w","uid":"u",` +
			`"cpu_millicore_seconds":1,"memory_byte_seconds":null,"storage_bytes":null,"pod_seconds":300}`,
		`{"namespace":"n","workspace":"w","uid":"u","phase":"Ready","ready_replicas":2,"desired_replicas":2,` +
			`"conditions":[{"type":"Ready","status":"True","reason":"R"}],"observed_generation":3,"restart_required_consumed":1}`,
	} {
		f.Add(i, []byte(head+record+"]}"))
		f.Add(i, []byte(head+record+","+record+"]} "))
	}
	for _, text := range []string{
		"", "{", "[]", "null", "\xff", `{"a":1,"a":2}`, head + "]}", head + "null]}", head + "{}]}", head + `[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]}`,
		`{"\ud800":1}`, "1e999", head + `{"slot":"0000-01-01T00:00:00Z"}]}`, `{"records":[1]}{`,
	} {
		f.Add(1, []byte(text))
	}
	endpoints := []Endpoint{Register, Health, Metering, WorkspaceReport}
	f.Fuzz(func(t *testing.T, index int, body []byte) {
		endpoint := endpoints[uint(index)%uint(len(endpoints))]
		e, head, records := newDecoder().decode(endpoint, body)
		verdict := newLedger(300e9).judge(Capture{Endpoint: endpoint, Body: body, Verified: true})
		if head != nil || records != nil {
			if verdict.Status != http.StatusBadRequest {
				t.Fatalf("%q is refused (%v, %v), and the verdict is %+v", body, head, records, verdict)
			}
			return
		}
		if !json.Valid(body) || e.Cluster == "" || e.Sequence == 0 || e.SentAt.IsZero() && !bytes.Contains(body, []byte("0001-01-01")) {
			t.Fatalf("%q is let through as %+v", body, e)
		}
		var err error
		switch endpoint {
		case Register:
			_, err = decodeRecords(e, func(*Registration) {})
		case Health:
			_, err = decodeRecords(e, func(*Node) {})
		case Metering:
			_, err = decodeRecords(e, func(*Usage) {})
		case WorkspaceReport:
			_, err = decodeRecords(e, func(*Workspace) {})
		}
		if err != nil {
			t.Fatalf("%q fits the schema and not the type: %v", body, err)
		}
	})
}
