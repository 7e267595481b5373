// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// carried is one kind of traffic. It fails the test unless all of it arrives.
type carried func(ctx context.Context, w *tenant)

// What is carried to Workspaces that sleep, and then again to those that are awake by that, arrives whole.
func TestStreams(t *testing.T) {
	s := given(t)
	class := s.class(economy(time.Hour))
	kinds := map[string]carried{"upload": upload, "socket": socket, "events": events, "grpc": grpc}
	all := map[string]*tenant{}
	for name := range kinds {
		all[name] = s.workspace(name, class)
	}
	for _, w := range all {
		w.serving().watched()
	}
	s.toSleep(slices.Collect(maps.Values(all))...)
	activators := s.activatorProcesses()
	for name, carry := range kinds {
		for _, when := range []string{"cold", "warm"} {
			t.Run(name+" "+when, func(t *testing.T) {
				start := s.resetPeaks(activators)
				ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
				defer cancel()
				started := time.Now()
				w := *all[name]
				w.scenario = &scenario{t, s.environment, s.namespace}
				carry(ctx, &w)
				peaks := s.peaks(activators)
				t.Logf("took %s; the activators' memory went from %d to %d MiB at its peak", time.Since(started), mebibytes(start), mebibytes(peaks))
				for i, peak := range peaks {
					if grown := peak - start[i]; grown >= 32<<20 {
						t.Errorf("the memory of an activator has grown by %d MiB for one request", grown>>20)
					}
				}
			})
		}
	}
	s.unharmed()
}

// noise is a body that nobody can guess, with the hash of what was read of it.
type noise struct {
	random *rand.ChaCha8
	left   int64
	hash   hash.Hash
}

func newNoise(size int64) *noise {
	return &noise{rand.NewChaCha8([32]byte{1}), size, sha256.New()}
}

func (n *noise) Read(p []byte) (int, error) {
	if n.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), n.left)]
	_, _ = n.random.Read(p) // never fails
	n.hash.Write(p)
	n.left -= int64(len(p))
	return len(p), nil
}

// upload sends chunks, of which nobody knows how many will come. The client first waits to be told that the body is wanted.
func upload(ctx context.Context, w *tenant) {
	w.Helper()
	size := either[int64](2<<30, 64<<20)
	body := newNoise(size)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url("/upload"), io.NopCloser(body))
	w.must("make a request", err)
	r.Header.Set("Expect", "100-continue")
	r.Trailer = http.Header{"X-Checksum": {"at the end"}}
	transport := w.transport()
	transport.ExpectContinueTimeout = patience
	transport.WriteBufferSize = 64 << 10
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(r)
	w.must("upload", err)
	defer response.Body.Close()
	var have struct {
		Size     int64
		SHA256   string
		Trailers http.Header
	}
	w.must("read the answer", json.NewDecoder(response.Body).Decode(&have))
	if want := hex.EncodeToString(body.hash.Sum(nil)); have.Size != size || have.SHA256 != want || have.Trailers.Get("X-Checksum") != "at the end" {
		w.Errorf("of %d bytes with hash %s arrived: %+v", size, want, have)
	}
}

func socket(ctx context.Context, w *tenant) {
	w.Helper()
	dialer := &websocket.Dialer{NetDialContext: w.transport().DialContext, HandshakeTimeout: patience}
	conn, response, err := dialer.DialContext(ctx, "ws://"+w.host()+"/ws", nil)
	w.must("open a WebSocket", err)
	defer response.Body.Close()
	defer conn.Close()
	for _, message := range []string{"one", strings.Repeat("two", 1<<16), "three"} {
		w.must("send", conn.WriteMessage(websocket.TextMessage, []byte(message)))
		if _, have, err := conn.ReadMessage(); err != nil || string(have) != message {
			w.Errorf("%d bytes came back of %d, %v", len(have), len(message), err)
		}
	}
}

// events have to arrive while the stream is still open.
func events(ctx context.Context, w *tenant) {
	w.Helper()
	const n = 20
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url(fmt.Sprintf("/sse?count=%d&every=50ms", n)), nil)
	w.must("make a request", err)
	response, err := w.client().Do(r)
	w.must("open an event stream", err)
	defer response.Body.Close()
	var want strings.Builder
	for i := range n {
		fmt.Fprintf(&want, "id: %d\ndata: %s\n\n", i, w.name)
	}
	have, err := io.ReadAll(response.Body)
	if err != nil || string(have) != want.String() {
		w.Errorf("the events are %q, %v", have, err)
	}
}

// grpc sends a message only when the one before has come back.
func grpc(ctx context.Context, w *tenant) {
	w.Helper()
	transport := w.transport()
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	reader, writer := io.Pipe()
	defer writer.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url("/grpc"), reader)
	w.must("make a request", err)
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	response, err := transport.RoundTrip(r)
	w.must("open a stream", err)
	defer response.Body.Close()
	if response.ProtoMajor != 2 || response.Header.Get("Content-Type") != "application/grpc" {
		w.Errorf("the answer is %s %+v", response.Proto, response.Header)
	}
	for i := range 20 {
		message := fmt.Appendf(nil, "message %d", i)
		_, err := writer.Write(message)
		w.must("send a message", err)
		have := make([]byte, len(message))
		if _, err := io.ReadFull(response.Body, have); err != nil || string(have) != string(message) {
			w.Fatalf("%q came back, %v", have, err)
		}
	}
	writer.Close()
	if rest, err := io.ReadAll(response.Body); len(rest) > 0 || err != nil {
		w.Errorf("at the end: %q, %v", rest, err)
	}
	if have := response.Trailer; have.Get("Grpc-Status") != "0" || have.Get("Grpc-Message") != w.name {
		w.Errorf("the trailers are %v", have)
	}
}

// A pod sees the same request cold, warm and without the activator, but for the activator's entry in X-Forwarded-For. The host is one that the
// Workspace claims.
func TestHeaders(t *testing.T) {
	t.Parallel()
	s := given(t)
	class := s.class(economy(time.Hour), func(class *v1alpha1.ClusterClass) { class.Spec.HostSuffixes = []string{s.namespace + ".example.com"} })
	host := "shop." + s.namespace + ".example.com"
	shop := s.workspace("shop", class, func(ws *v1alpha1.Workspace) { ws.Spec.Hosts = []string{host} }).serving().watched()
	ask := func(transport *http.Transport) seen {
		s.Helper()
		transport.DisableKeepAlives = true
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/a%2Fb?c=%20d", nil)
		s.must("make a request", err)
		for name, value := range map[string]string{
			"Forwarded": "for=192.0.2.1;proto=https", "X-Forwarded-For": "192.0.2.1, 198.51.100.7", "X-Forwarded-Proto": "https",
			"X-Forwarded-Host": "shop.example.org", "X-Request-Id": "4711", "Accept-Encoding": "br", "User-Agent": "e2e", "X-Hop": "goes", "Connection": "X-Hop",
		} {
			r.Header.Set(name, value)
		}
		response, err := transport.RoundTrip(r)
		s.must("send a request", err)
		defer response.Body.Close()
		var have seen
		s.must("read the answer", json.NewDecoder(response.Body).Decode(&have))
		return have
	}
	s.toSleep(shop)
	cold := ask(shop.transport())
	warm := ask(shop.transport())
	direct := ask(transportTo(shop.pods()[0].Status.PodIP + ":8080"))

	if have := direct.Headers; cold.Host != host || warm.Host != host || have.Get("X-Forwarded-Proto") != "https" {
		t.Errorf("the pod sees cold %+v\nwarm %+v\ndirect %+v", cold, warm, direct)
	}
	if !reflect.DeepEqual(cold.Headers, warm.Headers) {
		t.Errorf("the pod sees cold %v\nwarm %v", cold.Headers, warm.Headers)
	}
	before, entry, _ := strings.Cut(warm.Headers.Get("X-Forwarded-For"), "198.51.100.7, ")
	if before != "192.0.2.1, " || entry == "" || strings.Contains(entry, ",") {
		t.Errorf("X-Forwarded-For is %q", warm.Headers.Get("X-Forwarded-For"))
	}
	for _, hop := range []string{"X-Hop", "Connection"} {
		delete(direct.Headers, hop)
	}
	direct.Headers.Set("X-Forwarded-For", warm.Headers.Get("X-Forwarded-For"))
	if !reflect.DeepEqual(direct.Headers, warm.Headers) {
		t.Errorf("the pod sees directly %v\nwarm %v", direct.Headers, warm.Headers)
	}
}
