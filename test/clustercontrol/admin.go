// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Admin serves the page and what README.md says of /admin/. It asks nobody who they are: keep it on the loopback interface.
func (s *Server) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.servePage)
	mux.HandleFunc("GET /admin/state", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, s.State()) })
	mux.HandleFunc("GET /admin/violations", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, s.State().Violations) })
	mux.HandleFunc("GET /admin/captures", s.serveCaptures)
	mux.HandleFunc("POST /admin/restarts", s.serveRestart)
	mux.HandleFunc("POST /admin/keys", s.serveKey)
	mux.HandleFunc("PUT /admin/misbehaviour/{endpoint}", s.serveMisbehaviour)
	mux.HandleFunc("DELETE /admin/misbehaviour/{endpoint}", s.serveMisbehaviour)
	return http.NewCrossOriginProtection().Handler(mux) // a web page that a developer visits changes nothing here
}

// captureLine is a Capture as people grep it: the body is text, not base64.
type captureLine struct {
	Capture
	Body string `json:"body"`
}

// serveCaptures writes one line of JSON a request.
func (s *Server) serveCaptures(w http.ResponseWriter, r *http.Request) {
	captures, err := s.Captures()
	if err != nil {
		reply(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, c := range captures {
		if endpoint := r.FormValue("endpoint"); endpoint != "" && endpoint != string(c.Endpoint) {
			continue
		}
		if encoder.Encode(captureLine{c, string(c.Body)}) != nil {
			return // the client went away
		}
	}
}

func (s *Server) serveRestart(w http.ResponseWriter, r *http.Request) {
	var restart Restart
	err := read(w, r, &restart)
	if err == nil {
		restart, err = s.RequestRestart(restart)
	}
	respond(w, http.StatusCreated, restart, err)
}

func (s *Server) serveKey(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		Public  string `json:"public_key"`
		Cluster string `json:"cluster"`
	}
	err := read(w, r, &wanted)
	key := TrustedKey{Cluster: wanted.Cluster}
	if err == nil {
		key.Public, err = ParseKey(wanted.Public)
	}
	if err == nil {
		err = s.Trust(key)
	}
	respond(w, http.StatusCreated, map[string]string{"key_id": key.ID(), "cluster": key.Cluster}, err)
}

// serveMisbehaviour changes one endpoint, or all of them. DELETE makes it behave.
func (s *Server) serveMisbehaviour(w http.ResponseWriter, r *http.Request) {
	endpoints := []Endpoint{Endpoint(r.PathValue("endpoint"))}
	if endpoints[0] == "all" {
		endpoints = Endpoints()
	}
	var misbehaviour Misbehaviour
	var err error
	if r.Method == http.MethodPut {
		err = read(w, r, &misbehaviour)
	}
	for _, endpoint := range endpoints {
		if err == nil {
			err = s.Misbehave(endpoint, misbehaviour)
		}
	}
	respond(w, http.StatusOK, s.State().Misbehaviour, err)
}

// read reads a small JSON body, and nothing that it does not know.
func read(w http.ResponseWriter, r *http.Request, into any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("the body is not what README.md says: %w", err)
	}
	return nil
}

func respond(w http.ResponseWriter, status int, value any, err error) {
	if err != nil {
		reply(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	reply(w, status, value)
}

func reply(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value)
}
