// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// upgraded echoes lines after a WebSocket handshake. The activator does not look into frames, so lines will do.
func upgraded(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Connection") != "Upgrade" || r.Header.Get("Upgrade") != "websocket" {
		w.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-Websocket-Accept: x\r\n\r\n")
	for {
		line, err := buffered.ReadString('\n')
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "echo "+line)
	}
}

const handshake = "GET /socket HTTP/1.1\nHost: " + shopHost + "\nConnection: keep-alive, Upgrade\nUpgrade: websocket\nSec-WebSocket-Key: x\nSec-WebSocket-Version: 13\n\n"

func TestAWebSocketColdAndWarm(t *testing.T) {
	r := newRig(t, nil)
	pod := newPod(t, upgraded)
	var open []*raw
	for _, temperature := range []string{"cold", "warm"} {
		c := dialRaw(t, r.address, handshake)
		if temperature == "cold" {
			r.waitsFor(1)
			r.pods("shop", pod)
		}
		head := c.head(t)
		if !strings.HasPrefix(head, "HTTP/1.1 101 ") || !strings.Contains(head, "Sec-Websocket-Accept: x") || strings.Contains(head, coldStartHeader) != (temperature == "cold") {
			t.Fatalf("%s: %q", temperature, head)
		}
		for i := range 3 { // both ways, and nothing waits for a full buffer
			c.send(t, fmt.Sprintf("message %d\n", i))
			if line, err := c.ReadString('\n'); line != fmt.Sprintf("echo message %d\r\n", i) || err != nil {
				t.Fatalf("%s: %q, %v", temperature, line, err)
			}
		}
		open = append(open, c)
	}
	if n := r.running.count(); n != 2 {
		t.Errorf("%d requests run, want both sockets", n)
	}
	for _, c := range open {
		_ = c.Close()
	}
	r.eventually("the sockets have ended", func() bool { return r.running.count() == 0 })
}

// Each event arrives before the next is sent.
func TestEventsArriveAtOnce(t *testing.T) {
	r := newRig(t, nil)
	next := make(chan struct{})
	pod := newPod(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	})
	client := newClient(t, false)
	type opened struct {
		res *http.Response
		err error
	}
	stream := make(chan opened, 1)
	go func() {
		res, err := client.Do(r.request(t.Context(), "GET", "/", nil)) //nolint:bodyclose // below
		stream <- opened{res, err}
	}()
	r.waitsFor(1)
	r.pods("shop", pod)
	got := <-stream
	if got.err != nil {
		t.Fatal(got.err)
	}
	defer got.res.Body.Close()
	lines := bufio.NewScanner(got.res.Body)
	for i := range 3 {
		if !lines.Scan() || lines.Text() != fmt.Sprintf("data: %d", i) {
			t.Fatalf("event %d: %q, %v", i, lines.Text(), lines.Err())
		}
		lines.Scan()
		next <- struct{}{}
	}
}

// Also of an answer whose length is known each part arrives before the next is sent.
func TestPartsOfALongAnswerArrive(t *testing.T) {
	r := newRig(t, nil)
	next := make(chan struct{})
	r.pods("shop", newPod(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "8")
		_ = http.NewResponseController(w).Flush()
		<-next
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		<-next
		_, _ = io.WriteString(w, "more")
	}))
	res, err := newClient(t, false).Do(r.request(t.Context(), "GET", "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	next <- struct{}{} // the head has come
	half := make([]byte, 4)
	if _, err := io.ReadFull(res.Body, half); err != nil || string(half) != "half" {
		t.Fatal(string(half), err)
	}
	next <- struct{}{}
	if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "more" {
		t.Error(string(rest), err)
	}
}

// A stream in both directions over h2c with trailers, which is what gRPC is made of.
func TestABidirectionalStreamColdAndWarm(t *testing.T) {
	r := newRig(t, nil)
	pod := newPod(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.Header.Get("Te") != "trailers" {
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
			return
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintf(w, "echo %s\n", lines.Text())
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", "unannounced")
	})
	client := newClient(t, true)
	for _, temperature := range []string{"cold", "warm"} {
		body, send := io.Pipe()
		request := r.request(t.Context(), "POST", "/pkg.Service/Method", body)
		request.Header.Set("Te", "trailers")
		request.Header.Set("Content-Type", "application/grpc")
		go func() {
			if temperature == "cold" {
				r.waitsFor(1)
				r.pods("shop", pod)
			}
			_, _ = io.WriteString(send, "one\n")
		}()
		res, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK || (res.Header.Get(coldStartHeader) != "") != (temperature == "cold") {
			t.Fatalf("%s: %s %v", temperature, res.Status, res.Header)
		}
		lines := bufio.NewScanner(res.Body)
		for _, word := range []string{"two", "three", ""} {
			if !lines.Scan() {
				t.Fatalf("%s: the stream ended: %v", temperature, lines.Err())
			}
			if word != "" {
				_, _ = io.WriteString(send, word+"\n")
			}
		}
		if lines.Text() != "echo three" {
			t.Errorf("%s: the last line is %q", temperature, lines.Text())
		}
		_ = send.Close()
		if lines.Scan() || lines.Err() != nil {
			t.Errorf("%s: after the end: %q, %v", temperature, lines.Text(), lines.Err())
		}
		if res.Trailer.Get("Grpc-Status") != "0" || res.Trailer.Get("Grpc-Message") != "unannounced" {
			t.Errorf("%s: trailers %v", temperature, res.Trailer)
		}
	}
}

// When the client goes, the pod learns of it.
func TestAClientThatHangsUpMidStream(t *testing.T) {
	for name, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			left := make(chan struct{})
			r.pods("shop", newPod(t, func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				close(left)
			}))
			ctx, hangUp := context.WithCancel(t.Context())
			res, err := newClient(t, h2).Do(r.request(ctx, "GET", "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			hangUp()
			<-left
		})
	}
}

func TestAnswerTrailersOverHTTP1(t *testing.T) {
	r := newRig(t, nil)
	r.pods("shop", newPod(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Checksum")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Checksum", "abc")
	}))
	res, err := newClient(t, false).Do(r.request(t.Context(), "GET", "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.Trailer.Get("X-Checksum") != "abc" {
		t.Errorf("trailers %v, %v", res.Trailer, err)
	}
}
