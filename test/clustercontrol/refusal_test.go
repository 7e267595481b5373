// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	cc "github.com/formspec/formspec-operator/test/clustercontrol"
)

// send is a row that replaces text in a good envelope of one good record.
func send(endpoint cc.Endpoint, old, replacement string) func(*operator) (int, string) {
	return func(o *operator) (int, string) {
		record := map[cc.Endpoint]string{
			cc.Register: registration, cc.Health: health, cc.Metering: usage("u1", "2026-07-10T10:00:00Z", 1), cc.WorkspaceReport: status,
		}[endpoint]
		good := o.envelope(1, record)
		body := bytes.Replace(good, []byte(old), []byte(replacement), 1)
		if bytes.Equal(body, good) {
			o.t.Fatalf("%q is not in %s", old, good)
		}
		return o.post(endpoint, body)
	}
}

// with is a row that changes the request of a good envelope.
func with(change func(*http.Request)) func(*operator) (int, string) {
	return func(o *operator) (int, string) { return o.post(cc.Health, o.envelope(1, health), change) }
}

// slot is a row that reports usage of a slot.
func slot(of string) func(*operator) (int, string) {
	return func(o *operator) (int, string) { return o.post(cc.Metering, o.envelope(1, usage("u1", of, 1))) }
}

func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		send   func(*operator) (int, string)
		status int
		kind   cc.Kind
		says   string
	}{
		"no content type":     {with(func(r *http.Request) { r.Header.Del("Content-Type") }), 415, cc.BadRequest, "application/json"},
		"another one":         {with(func(r *http.Request) { r.Header.Set("Content-Type", "text/json") }), 415, cc.BadRequest, "application/json"},
		"a compressed body":   {with(func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }), 415, cc.BadRequest, "gzip"},
		"no key id":           {with(func(r *http.Request) { r.Header.Del("Formspec-Key-Id") }), 401, cc.BadSignature, "Formspec-Key-Id"},
		"two key ids":         {with(func(r *http.Request) { r.Header.Add("Formspec-Key-Id", "x") }), 401, cc.BadSignature, "once"},
		"a long key id":       {with(func(r *http.Request) { r.Header.Set("Formspec-Key-Id", strings.Repeat("a", 64)) }), 401, cc.BadSignature, "16 hex"},
		"an unknown key":      {with(func(r *http.Request) { r.Header.Set("Formspec-Key-Id", strings.Repeat("a", 16)) }), 401, cc.UnknownKey, "not trusted"},
		"no signature":        {with(func(r *http.Request) { r.Header.Del("Formspec-Signature") }), 401, cc.BadSignature, "Formspec-Signature"},
		"half a signature":    {with(func(r *http.Request) { r.Header.Set("Formspec-Signature", strings.Repeat("a", 64)) }), 401, cc.BadSignature, "128 hex"},
		"a made-up one":       {with(func(r *http.Request) { r.Header.Set("Formspec-Signature", strings.Repeat("a", 128)) }), 401, cc.BadSignature, "not one of this body"},
		"another body":        {with(func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{}")), 2 }), 401, cc.BadSignature, "not one of this body"},
		"a huge body":         {func(o *operator) (int, string) { return o.post(cc.Health, make([]byte, 9<<20)) }, 413, cc.BadRequest, "larger than"},
		"another cluster":     {send(cc.Health, `"jkt-premium-01"`, `"sby-01"`), 401, cc.UnknownKey, "sby-01"},
		"an empty body":       {func(o *operator) (int, string) { return o.post(cc.Health, nil) }, 400, cc.BadEnvelope, "not JSON"},
		"no JSON":             {send(cc.Health, "{", "["), 400, cc.BadEnvelope, "not JSON"},
		"two values":          {send(cc.Health, "{", "{}{"), 400, cc.BadEnvelope, "after the JSON"},
		"a key twice":         {send(cc.Health, `"cluster":`, `"cluster":"sby-01","cluster":`), 400, cc.BadEnvelope, "twice"},
		"a key twice below":   {send(cc.Health, `"node":`, `"node":"x","node":`), 400, cc.BadEnvelope, "twice"},
		"no UTF-8":            {send(cc.Health, "node-a", "\xff"), 400, cc.BadEnvelope, "UTF-8"},
		"deep nesting":        {send(cc.Health, "[]", strings.Repeat("[", 50)+strings.Repeat("]", 50)), 400, cc.BadEnvelope, "deeper"},
		"no object":           {func(o *operator) (int, string) { return o.post(cc.Health, []byte("[]")) }, 400, cc.BadEnvelope, "not an object"},
		"another protocol":    {send(cc.Health, "operator/1", "operator/2"), 400, cc.BadProtocol, "operator/2"},
		"no cluster":          {send(cc.Health, `"jkt-premium-01"`, `""`), 400, cc.BadEnvelope, "envelope.cluster"},
		"no instance":         {send(cc.Health, firstInstance, "pod-1"), 400, cc.BadEnvelope, "UUID"},
		"sequence 0":          {send(cc.Health, `"sequence":1`, `"sequence":0`), 400, cc.BadEnvelope, "from 1 on"},
		"a text sequence":     {send(cc.Health, `"sequence":1`, `"sequence":"1"`), 400, cc.BadEnvelope, "from 1 on"},
		"half a sequence":     {send(cc.Health, `"sequence":1`, `"sequence":1.5`), 400, cc.BadEnvelope, "from 1 on"},
		"a huge sequence":     {send(cc.Health, `"sequence":1`, `"sequence":9223372036854775808`), 400, cc.BadEnvelope, "from 1 on"},
		"no time":             {send(cc.Health, `"sent_at":"2026-07-10T10:00:00Z"`, `"sent_at":"yesterday"`), 400, cc.BadEnvelope, "RFC 3339"},
		"a lax time":          {send(cc.Health, `"sent_at":"2026-07-10T10:00:00Z"`, `"sent_at":"2026-07-10T1:00:00Z"`), 400, cc.BadEnvelope, "RFC 3339"},
		"a number as time":    {send(cc.Health, `"sent_at":"2026-07-10T10:00:00Z"`, `"sent_at":1783677600`), 400, cc.BadEnvelope, "RFC 3339"},
		"no records":          {send(cc.Health, `"records":[`, `"records":null,"x":[`), 400, cc.BadEnvelope, "not an array"},
		"records missing":     {send(cc.Health, `"records":`, `"record":`), 400, cc.BadEnvelope, "records is missing"},
		"a field more":        {send(cc.Health, `"cluster":`, `"region":"jkt","cluster":`), 400, cc.BadEnvelope, "envelope.region is not a field"},
		"another case":        {send(cc.Health, `"cluster":`, `"Cluster":`), 400, cc.BadEnvelope, "cluster is missing"},
		"an unknown kind":     {send(cc.Register, `"kind":"node"`, `"kind":"pod"`), 400, cc.BadRecord, "one of node, datastore, cache"},
		"an unknown action":   {send(cc.Register, `"register"`, `"update"`), 400, cc.BadRecord, "records[0].action"},
		"no id":               {send(cc.Register, `"node-a"`, `""`), 400, cc.BadRecord, "records[0].id"},
		"null labels":         {send(cc.Register, `{"zone":"a"}`, `null`), 400, cc.BadRecord, "records[0].labels"},
		"a number as label":   {send(cc.Register, `{"zone":"a"}`, `{"zone":1}`), 400, cc.BadRecord, "not a string: 1"},
		"a text capacity":     {send(cc.Register, "4000", `"4"`), 400, cc.BadRecord, "capacity"},
		"a negative one":      {send(cc.Register, "4000", "-1"), 400, cc.BadRecord, "from 0 on"},
		"an empty token":      {send(cc.Register, `"action"`, `"join_token":"","action"`), 400, cc.BadRecord, "join_token"},
		"a password":          {send(cc.Register, `"zone":"a"`, `"dsn":"postgres://u:hunter2@h/db"`), 400, cc.Credentials, "password"},
		"one in a bad record": {send(cc.Register, `"node"`, `"postgres://u:hunter2@h/db"`), 400, cc.Credentials, "password"},
		"an unknown status":   {send(cc.Health, `"healthy"`, `"fine"`), 400, cc.BadRecord, "one of healthy, degraded, unhealthy"},
		"null reasons":        {send(cc.Health, `"reasons":[]`, `"reasons":null`), 400, cc.BadRecord, "reasons is not an array"},
		"usage missing":       {send(cc.Health, `,"usage":null`, ""), 400, cc.BadRecord, "usage is missing"},
		"half a usage":        {send(cc.Health, `"usage":null`, `"usage":{"cpu_millicores":1}`), 400, cc.BadRecord, "usage.memory_bytes is missing"},
		"no allocatable":      {send(cc.Health, `{"cpu_millicores":4000,"memory_bytes":8589934592}`, "null"), 400, cc.BadRecord, "allocatable"},
		"a list of them":      {send(cc.Health, `"workspaces":3`, `"workspaces":["a"]`), 400, cc.BadRecord, "workspaces"},
		"an unknown phase":    {send(cc.WorkspaceReport, `"phase":"Ready"`, `"phase":"Running"`), 400, cc.BadRecord, "phase"},
		"a bool condition":    {send(cc.WorkspaceReport, `"status":"True"`, `"status":true`), 400, cc.BadRecord, "conditions[0].status"},
		"no reason":           {send(cc.WorkspaceReport, `"reason":"Available"`, `"reason":""`), 400, cc.BadRecord, "conditions[0].reason"},
		"a message":           {send(cc.WorkspaceReport, `"reason":`, `"message":"x","reason":`), 400, cc.BadRecord, "message is not a field"},
		"consumed 0":          {send(cc.WorkspaceReport, `"uid"`, `"restart_required_consumed":0,"uid"`), 400, cc.BadRecord, "from 1 on"},
		"a slot in between":   {slot("2026-07-10T10:01:00Z"), 400, cc.BadRecord, "interval of 5m0s"},
		"a slot elsewhere":    {slot("2026-07-10T17:00:00+07:00"), 400, cc.BadRecord, "UTC"},
		"a key of its own":    {send(cc.Metering, "jkt-premium-01/u1", "jkt-premium-01/u2"), 400, cc.BadRecord, "idempotency_key"},
		"negative usage":      {send(cc.Metering, `seconds":1,`, `seconds":-1,`), 400, cc.BadRecord, "from 0 on"},
		"no pod seconds":      {send(cc.Metering, `"pod_seconds":300`, `"pod_seconds":null`), 400, cc.BadRecord, "pod_seconds"},
		"node and workspace":  {send(cc.Metering, `"uid"`, `"node":"a","uid"`), 400, cc.BadRecord, "is not a field"},
	} {
		t.Run(name, func(t *testing.T) {
			server, o := serve(t, cc.Options{})
			code, message := test.send(o)
			if code != test.status || !strings.Contains(message, test.says) {
				t.Errorf("got %d %s, want %d and %q", code, message, test.status, test.says)
			}
			if strings.Contains(message, "hunter2") {
				t.Errorf("the password is repeated: %s", message)
			}
			wantViolations(t, server, test.kind)
			state := server.State()
			if len(state.Nodes)+len(state.Workspaces)+len(state.Registrations)+len(state.Usage) != 0 {
				t.Errorf("something was taken in: %+v", state)
			}
		})
	}
}
