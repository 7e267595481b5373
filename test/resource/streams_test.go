// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

func TestUpload(t *testing.T) {
	r := begin(t)
	content := strings.Repeat("0123456789", 1<<20)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.url+"/upload", io.NopCloser(strings.NewReader(content)))
	if err != nil {
		t.Fatal(err)
	}
	request.Trailer = http.Header{"X-Checksum": {"abc"}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	have, sum := decode[uploaded](t, read(t, response)), sha256.Sum256([]byte(content))
	if have.Size != int64(len(content)) || have.SHA256 != hex.EncodeToString(sum[:]) || have.Trailers.Get("X-Checksum") != "abc" {
		t.Errorf("the answer is %+v", have)
	}
}

func TestEvents(t *testing.T) {
	r := begin(t)
	code, body := r.get(t, "/sse?count=2&every=1ms")
	if want := "id: 0\ndata: shop\n\nid: 1\ndata: shop\n\n"; code != http.StatusOK || body != want {
		t.Errorf("%d %q, want %q", code, body, want)
	}
	for _, query := range []string{"count=many", "every=often", "every=0s"} {
		if code, _ := r.get(t, "/sse?"+query); code != http.StatusBadRequest {
			t.Errorf("%s: %d", query, code)
		}
	}
}

// An event arrives when it is sent, and a stream without end ends when the server does.
func TestEventsWithoutEnd(t *testing.T) {
	r := begin(t)
	response, err := http.Get(r.url + "/sse?every=1h")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	if first, err := lines.ReadString('\n'); err != nil || first != "id: 0\n" {
		t.Fatalf("%q, %v", first, err)
	}
	r.end()
	if rest, err := io.ReadAll(lines); err != nil || string(rest) != "data: shop\n\n" {
		t.Errorf("%q, %v", rest, err)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

func TestWebSocket(t *testing.T) {
	r := begin(t)
	conn, response, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(r.url, "http")+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	defer conn.Close()
	for _, message := range []string{"one", strings.Repeat("two", 1<<16)} {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if kind, have, err := conn.ReadMessage(); err != nil || kind != websocket.TextMessage || string(have) != message {
			t.Fatalf("got a message of kind %d and %d bytes, %v", kind, len(have), err)
		}
	}
	r.end()
	if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
		t.Errorf("at the end: %v", err)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// Each message comes back before the next one is sent, over HTTP/2 without TLS.
func TestStream(t *testing.T) {
	r := begin(t)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	reader, writer := io.Pipe()
	defer writer.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/grpc", reader)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.ProtoMajor != 2 || response.Header.Get("Content-Type") != "application/grpc" {
		t.Errorf("%s %v", response.Proto, response.Header)
	}
	for _, message := range []string{"ping", "pong"} {
		if _, err := writer.Write([]byte(message)); err != nil {
			t.Fatal(err)
		}
		have := make([]byte, len(message))
		if _, err := io.ReadFull(response.Body, have); err != nil || string(have) != message {
			t.Fatalf("%q, %v", have, err)
		}
	}
	writer.Close()
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if response.Trailer.Get("Grpc-Status") != "0" || response.Trailer.Get("Grpc-Message") != "shop" {
		t.Errorf("trailers %v", response.Trailer)
	}
	if code, _ := r.get(t, "/grpc"); code != http.StatusHTTPVersionNotSupported {
		t.Errorf("over HTTP/1.1 the answer is %d", code)
	}
}
