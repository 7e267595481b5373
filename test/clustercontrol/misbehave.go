// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Mode is a way in which an endpoint misbehaves. The zero value is not to.
type Mode string

// All of them.
const (
	Behave      Mode = ""
	Refuse      Mode = "refuse" // close the connection without an answer
	Hang        Mode = "hang"   // answer never; the connection closes when the mode is changed
	Throttle    Mode = "429"    // with Retry-After
	Unavailable Mode = "503"    // with Retry-After
	Fail        Mode = "500"
	Drop        Mode = "drop" // take the request in, then close the connection without an answer
	Huge        Mode = "huge" // take the request in, and answer with 10 MB of blanks before the JSON
)

// Modes returns all but Behave.
func Modes() []Mode { return []Mode{Refuse, Hang, Throttle, Unavailable, Fail, Drop, Huge} }

// hugeAnswer is how many bytes Huge puts before an answer.
const hugeAnswer = 10 << 20

// processes tells whether the request is taken in nevertheless.
func (m Mode) processes() bool { return m == Behave || m == Drop || m == Huge }

// Misbehaviour is what an endpoint does to requests.
type Misbehaviour struct {
	Mode Mode `json:"mode"`
	// RetryAfter is sent with 429 and 503, in whole seconds. 0: no such header.
	RetryAfter int `json:"retry_after_seconds,omitempty"`
	// Count is for how many requests. 0: until it is changed.
	Count int `json:"count,omitempty"`
}

func (m Misbehaviour) validate(endpoint Endpoint) error {
	switch {
	case !slices.Contains(Endpoints(), endpoint):
		return fmt.Errorf("there is no endpoint %q: want one of %v", endpoint, Endpoints())
	case m.Mode != Behave && !slices.Contains(Modes(), m.Mode):
		return fmt.Errorf("there is no mode %q: want one of %v", m.Mode, Modes())
	case m.RetryAfter < 0 || m.Count < 0:
		return fmt.Errorf("retry_after_seconds and count must not be negative: %d, %d", m.RetryAfter, m.Count)
	}
	return nil
}

// misbehaviours is what each endpoint does now.
type misbehaviours struct {
	mu      sync.Mutex
	current map[Endpoint]Misbehaviour
	release map[Endpoint]chan struct{} // closed when requests that hang are let go
}

func (m *misbehaviours) set(endpoint Endpoint, misbehaviour Misbehaviour) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.release[endpoint] != nil {
		close(m.release[endpoint])
		delete(m.release, endpoint)
	}
	if misbehaviour.Mode == Behave {
		delete(m.current, endpoint)
		return
	}
	if m.current == nil {
		m.current, m.release = map[Endpoint]Misbehaviour{}, map[Endpoint]chan struct{}{}
	}
	m.current[endpoint] = misbehaviour
}

// take returns what happens to one request, and a channel that is closed when a request that hangs is let go.
func (m *misbehaviours) take(endpoint Endpoint) (Misbehaviour, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	current, ok := m.current[endpoint]
	if !ok {
		return Misbehaviour{}, nil
	}
	if m.release[endpoint] == nil {
		m.release[endpoint] = make(chan struct{})
	}
	switch current.Count {
	case 0:
	case 1:
		delete(m.current, endpoint)
	default:
		m.current[endpoint] = Misbehaviour{current.Mode, current.RetryAfter, current.Count - 1}
	}
	return current, m.release[endpoint]
}

func (m *misbehaviours) list() map[Endpoint]Misbehaviour {
	m.mu.Lock()
	defer m.mu.Unlock()
	current := make(map[Endpoint]Misbehaviour, len(m.current))
	maps.Copy(current, m.current)
	return current
}

// answer is what a request gets when all is well.
type answer struct {
	status int
	body   []byte // JSON
	etag   string // empty: none
}

// write answers, or does what is worse.
func (m Misbehaviour) write(w http.ResponseWriter, r *http.Request, release <-chan struct{}, a answer) {
	switch m.Mode {
	case Hang:
		select {
		case <-r.Context().Done():
		case <-release:
		}
		panic(http.ErrAbortHandler)
	case Refuse, Drop:
		panic(http.ErrAbortHandler)
	case Throttle, Unavailable, Fail:
		if m.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(m.RetryAfter))
		}
		status, _ := strconv.Atoi(string(m.Mode))
		http.Error(w, "misbehaving, as told to", status)
		return
	case Huge:
		a.body = append(bytes.Repeat([]byte(" "), hugeAnswer), a.body...)
	}
	w.Header().Set("Content-Type", "application/json")
	if a.etag != "" {
		w.Header().Set("ETag", a.etag)
	}
	w.WriteHeader(a.status)
	if a.status != http.StatusNotModified {
		_, _ = w.Write(a.body)
	}
}

// String is what the page shows.
func (m Misbehaviour) String() string {
	words := []string{string(m.Mode)}
	if m.RetryAfter > 0 {
		words = append(words, "Retry-After "+(time.Duration(m.RetryAfter)*time.Second).String())
	}
	if m.Count > 0 {
		words = append(words, fmt.Sprintf("%d more", m.Count))
	}
	return strings.Join(words, ", ")
}
