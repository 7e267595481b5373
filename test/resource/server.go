// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// server answers requests.
type server struct {
	options
	binary  *binary
	environ func() []string // as os.Environ
	started <-chan struct{} // closed when the start is over

	stop     func()          // called when the server is to end
	stopping <-chan struct{} // closed by stop, which ends what would go on for ever
	sockets  sync.WaitGroup  // WebSockets that are open
}

func newServer(o options, b *binary, started <-chan struct{}) *server {
	stopping := make(chan struct{})
	return &server{
		options: o, binary: b, environ: os.Environ, started: started,
		stop: sync.OnceFunc(func() { close(stopping) }), stopping: stopping,
	}
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/", s.echo)
	mux.HandleFunc("GET /config", s.config)
	mux.HandleFunc("GET /env", s.env)
	mux.HandleFunc("GET /connect", s.connect)
	mux.HandleFunc("GET /slow", s.slow)
	mux.HandleFunc("GET /sse", s.events)
	mux.HandleFunc("GET /ws", s.socket)
	mux.HandleFunc("/upload", s.upload)
	mux.HandleFunc("/grpc", s.stream)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-s.started:
			mux.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "starting", http.StatusServiceUnavailable)
		}
	})
}

// echoed is the answer of "/".
type echoed struct {
	Workspace string        `json:"workspace"`
	Pod       string        `json:"pod"`
	UID       int           `json:"uid"`
	Handler   handlerOutput `json:"handler"` // of the executable in the data folder, when the pod started

	Method  string      `json:"method"`
	Path    string      `json:"path"`
	Proto   string      `json:"proto"`
	Host    string      `json:"host"`
	Remote  string      `json:"remote"`
	Headers http.Header `json:"headers"`
}

func (s *server) echo(w http.ResponseWriter, r *http.Request) {
	pod, err := os.Hostname()
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	answer(w, echoed{
		Workspace: s.workspace, Pod: pod, UID: os.Getuid(), Handler: s.binary.atStart,
		Method: r.Method, Path: r.URL.Path, Proto: r.Proto, Host: r.Host, Remote: r.RemoteAddr, Headers: r.Header,
	})
}

func (s *server) config(w http.ResponseWriter, r *http.Request) {
	output, err := s.binary.run(r.Context())
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	answer(w, output)
}

func (s *server) env(w http.ResponseWriter, _ *http.Request) {
	names := []string{}
	for _, variable := range s.environ() {
		if name, _, _ := strings.Cut(variable, "="); ours(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	answer(w, names)
}

// ours tells whether a variable is one that the operator injects.
func ours(name string) bool {
	return strings.HasPrefix(name, "FORMSPEC_") || strings.HasPrefix(name, "FORMA_")
}

func (s *server) slow(w http.ResponseWriter, r *http.Request) {
	wait, err := time.ParseDuration(r.FormValue("seconds") + "s")
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		answer(w, "done")
	case <-r.Context().Done():
	}
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // fails if the client has gone
}

func fail(w http.ResponseWriter, code int, err error) { http.Error(w, err.Error(), code) }
