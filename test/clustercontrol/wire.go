// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// maxBody is more than ten thousand records.
const maxBody = 8 << 20

const prefix = "/v1/operator/"

// Wire serves the endpoints of the protocol.
func (s *Server) Wire() http.Handler {
	mux := http.NewServeMux()
	for _, endpoint := range Endpoints() {
		if endpoint == DeployStatus {
			mux.HandleFunc("GET "+prefix+string(endpoint), s.serveDeployStatus)
			continue
		}
		mux.HandleFunc("POST "+prefix+string(endpoint), func(w http.ResponseWriter, r *http.Request) { s.servePost(w, r, endpoint) })
	}
	mux.HandleFunc("/", s.serveUnknown)
	return mux
}

func (s *Server) servePost(w http.ResponseWriter, r *http.Request, endpoint Endpoint) {
	misbehaviour, release := s.modes.take(endpoint)
	c := Capture{Endpoint: endpoint, Mode: misbehaviour.Mode}
	var err error
	var tooLarge *http.MaxBytesError
	switch c.Body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody)); {
	case errors.As(err, &tooLarge):
		c.Body = nil
		c.Refusal = &Refusal{http.StatusRequestEntityTooLarge, BadRequest, fmt.Sprintf("the body is larger than %d bytes", maxBody)}
	case err != nil:
		panic(http.ErrAbortHandler) // the client went away in the middle
	default:
		c.Refusal = checkHeader(r.Header)
	}
	misbehaviour.write(w, r, release, s.receive(c, r.Header))
}

// checkHeader is for what every envelope has but its signature.
func checkHeader(header http.Header) *Refusal {
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		return &Refusal{http.StatusUnsupportedMediaType, BadRequest, "Content-Type must be application/json"}
	}
	if encoding := header.Get("Content-Encoding"); encoding != "" {
		return &Refusal{http.StatusUnsupportedMediaType, BadRequest, fmt.Sprintf("Content-Encoding must not be there, is %q", encoding)}
	}
	return nil
}

// receive logs a request and takes it in.
func (s *Server) receive(c Capture, header http.Header) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Received = s.options.Clock.Now().UTC()
	if c.Refusal == nil {
		s.ledger.authenticate(&c, header, s.options.TrustFirstUse)
	}
	id, err := s.add(entry{Capture: &c})
	if err != nil {
		s.options.Logger.Error(err, "A request is lost", "endpoint", c.Endpoint)
		return failure(http.StatusInternalServerError, "the log cannot be written")
	}
	verdict := s.ledger.verdicts[id]
	if verdict.Status >= http.StatusBadRequest && verdict.Status != http.StatusConflict {
		return failure(verdict.Status, verdict.Message)
	}
	return message(verdict.Status, "message", verdict.Message)
}

func message(status int, key, text string) answer {
	body, err := json.Marshal(map[string]string{key: text})
	if err != nil {
		return answer{status: http.StatusInternalServerError}
	}
	return answer{status: status, body: append(body, '\n')}
}

func failure(status int, text string) answer { return message(status, "error", text) }

func (s *Server) serveDeployStatus(w http.ResponseWriter, r *http.Request) {
	misbehaviour, release := s.modes.take(DeployStatus)
	if !misbehaviour.Mode.processes() {
		misbehaviour.write(w, r, release, answer{})
		return
	}
	misbehaviour.write(w, r, release, s.poll(r))
}

// poll answers a request for deploy-status. It is logged only if it is refused: there is one every 10 s, with nothing in it.
func (s *Server) poll(r *http.Request) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Capture{Endpoint: DeployStatus}
	s.ledger.authenticate(&c, r.Header, s.options.TrustFirstUse) // a GET has no body, so that is what is signed
	after, err := cursorOf(r)
	if c.Refusal == nil && err != nil {
		c.Refusal = &Refusal{http.StatusBadRequest, BadRequest, err.Error()}
	}
	if c.Refusal != nil {
		return s.refused(c)
	}
	cluster := c.Bound
	if cluster == "" {
		cluster = s.ledger.clusters[c.KeyID]
	}
	s.polls[cluster] = Poll{Time: s.options.Clock.Now().UTC(), After: after, Count: s.polls[cluster].Count + 1}
	s.announce()
	body, etag, err := s.ledger.deployStatus(cluster, after)
	if err != nil {
		return failure(http.StatusInternalServerError, err.Error())
	}
	if matches(r.Header.Get("If-None-Match"), etag) {
		return answer{status: http.StatusNotModified, etag: etag}
	}
	return answer{http.StatusOK, body, etag}
}

// cursorOf reads ?after=. Absent: from the first one on.
func cursorOf(r *http.Request) (int64, error) {
	query := r.URL.Query()
	if !query.Has("after") || query.Get("after") == "" {
		return 0, nil
	}
	after, err := strconv.ParseInt(query.Get("after"), 10, 64)
	if err != nil || after < 0 {
		return 0, fmt.Errorf("after must be a cursor that was given out, is %q", query.Get("after"))
	}
	return after, nil
}

// refused logs a request that has no body to take in. The lock is held.
func (s *Server) refused(c Capture) answer {
	c.Received = s.options.Clock.Now().UTC()
	if _, err := s.add(entry{Capture: &c}); err != nil {
		return failure(http.StatusInternalServerError, "the log cannot be written")
	}
	return failure(c.Refusal.Status, c.Refusal.Detail)
}

// serveUnknown is for what the contract does not have. An operator that asks for it is wrong, or newer.
func (s *Server) serveUnknown(w http.ResponseWriter, r *http.Request) {
	endpoint := Endpoint(strings.TrimPrefix(r.URL.Path, prefix))
	refusal := Refusal{http.StatusNotFound, BadRequest, "the contract has no " + r.Method + " " + r.URL.Path}
	if slices.Contains(Endpoints(), endpoint) {
		refusal.Status = http.StatusMethodNotAllowed
	}
	s.mu.Lock()
	a := s.refused(Capture{Endpoint: endpoint, Refusal: &refusal})
	s.mu.Unlock()
	Misbehaviour{}.write(w, r, nil, a)
}
