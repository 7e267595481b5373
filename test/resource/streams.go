// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/gorilla/websocket"
)

// uploaded is the answer of /upload.
type uploaded struct {
	Size     int64       `json:"size"`
	SHA256   string      `json:"sha256"` // hex
	Trailers http.Header `json:"trailers,omitempty"`
}

func (s *server) upload(w http.ResponseWriter, r *http.Request) {
	hash := sha256.New()
	size, err := io.Copy(hash, r.Body)
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	answer(w, uploaded{Size: size, SHA256: hex.EncodeToString(hash.Sum(nil)), Trailers: r.Trailer})
}

// events sends numbered server-sent events.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	count, every := -1, 100*time.Millisecond
	var errs []error
	if text := r.FormValue("count"); text != "" {
		var err error
		count, err = strconv.Atoi(text)
		errs = append(errs, err)
	}
	if text := r.FormValue("every"); text != "" {
		var err error
		every, err = time.ParseDuration(text)
		errs = append(errs, err)
	}
	if every <= 0 {
		errs = append(errs, errors.New("every must be more than 0"))
	}
	if err := errors.Join(errs...); err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for i := 0; i != count; i++ {
		fmt.Fprintf(w, "id: %d\ndata: %s\n\n", i, s.workspace)
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-ticks.C:
		case <-r.Context().Done():
			return
		case <-s.stopping:
			return
		}
	}
}

// socket echoes a WebSocket's messages until either side ends it.
func (s *server) socket(w http.ResponseWriter, r *http.Request) {
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	s.sockets.Add(1)
	defer s.sockets.Done()
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // the upgrader has answered
	}
	defer conn.Close()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-s.stopping:
			message := websocket.FormatCloseMessage(websocket.CloseGoingAway, "")
			_ = conn.WriteControl(websocket.CloseMessage, message, time.Now().Add(time.Second))
			_ = conn.SetReadDeadline(time.Now().Add(time.Second)) // for the client's answer
		case <-ended:
		}
	}()
	for {
		kind, message, err := conn.ReadMessage()
		if err != nil {
			return
		}
		if conn.WriteMessage(kind, message) != nil {
			return
		}
	}
}

// stream sends back whatever arrives as soon as it does, which only HTTP/2 allows while the request is still being sent.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor < 2 {
		http.Error(w, "this needs HTTP/2", http.StatusHTTPVersionNotSupported)
		return
	}
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
	if control.Flush() != nil {
		return
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := r.Body.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return
			}
			if control.Flush() != nil {
				return
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			w.Header().Set("Grpc-Status", "0")
			w.Header().Set("Grpc-Message", s.workspace)
			return
		case err != nil:
			return
		}
	}
}
