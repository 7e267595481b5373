// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
)

// secretLooking are words that no body may contain.
func secretLooking() []string {
	return []string{"password", "passwd", "secret", "PRIVATE", "Bearer", "token", "://", "message", "hunter2"}
}

// server is Cluster Control: it keeps what it is sent, and holds clients to the protocol. Its answers are those of answer, if that is set.
type server struct {
	t   *testing.T
	key *clustercontrol.Identity

	mu sync.Mutex
	// answer writes an answer and returns true, or returns false for the ordinary one. It is called with the lock held.
	answer    func(w http.ResponseWriter, r *http.Request) bool
	dial      func() error         // what a dial fails with; nil: it does not
	hang      chan struct{}        // closed when what hangs may end; nil: nothing hangs
	requests  []request            // all
	took      map[string][]byte    // bodies by instance, endpoint and sequence
	last      map[string]int64     // sequence that was seen, by instance and endpoint
	envelopes map[string][]message // accepted first time, by endpoint
	bodies    []string
}

type request struct {
	at       time.Time
	endpoint string
}

// message is a decoded envelope.
type message struct {
	Protocol   string            `json:"protocol"`
	Cluster    string            `json:"cluster"`
	InstanceID string            `json:"instance_id"`
	Sequence   int64             `json:"sequence"`
	SentAt     time.Time         `json:"sent_at"`
	Records    []json.RawMessage `json:"records"`
}

func newServer(t *testing.T) *server {
	t.Helper()
	key, err := clustercontrol.GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return &server{t: t, key: key, took: map[string][]byte{}, last: map[string]int64{}, envelopes: map[string][]message{}}
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has given up
	}
	r.Body = io.NopCloser(bytes.NewReader(body)) // for answer
	endpoint := path.Base(r.URL.Path)
	s.mu.Lock()
	s.requests = append(s.requests, request{time.Now(), endpoint})
	s.check(r, body)
	hang := s.hang
	s.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer != nil && s.answer(w, r) {
		return
	}
	if r.Method == http.MethodPost {
		w.WriteHeader(s.accept(endpoint, body))
		return
	}
	_, _ = io.WriteString(w, `{"cursor":0,"items":[]}`)
}

// check is what every request must be.
func (s *server) check(r *http.Request, body []byte) {
	public, _ := hex.DecodeString(s.key.PublicKey())
	signature, err := hex.DecodeString(r.Header.Get("Formspec-Signature"))
	if err != nil || !ed25519.Verify(public, body, signature) || r.Header.Get("Formspec-Key-Id") != s.key.KeyID() {
		s.t.Errorf("%s %s is not signed", r.Method, r.URL)
	}
	if r.Method == http.MethodPost && r.Header.Get("Content-Type") != "application/json" {
		s.t.Errorf("a body of type %q", r.Header.Get("Content-Type"))
	}
	known := slices.Contains(s.bodies, string(body))
	s.bodies = append(s.bodies, string(body))
	if known {
		return // a retry, byte by byte
	}
	for _, word := range secretLooking() {
		if bytes.Contains(body, []byte(word)) {
			s.t.Errorf("a body with %q", word)
		}
	}
	var m message
	if r.Method != http.MethodPost || json.Unmarshal(body, &m) != nil {
		return
	}
	lane := m.InstanceID + "/" + path.Base(r.URL.Path)
	if last := s.last[lane]; m.Sequence != last+1 && (path.Base(r.URL.Path) != "node-health" || m.Sequence <= last) {
		s.t.Errorf("%s: %d comes after %d", lane, m.Sequence, last) // or the same number with other bytes
	}
	s.last[lane] = m.Sequence
}

// accept takes an envelope in, as the contract has it, and returns the status.
func (s *server) accept(endpoint string, body []byte) int {
	var m message
	if err := json.Unmarshal(body, &m); err != nil || m.Protocol != "formspec-operator/1" || m.Cluster != "jkt" || m.Records == nil || m.InstanceID == "" {
		s.t.Errorf("an envelope of %.200s", body)
		return http.StatusBadRequest
	}
	lane := m.InstanceID + "/" + endpoint
	key := fmt.Sprintf("%s/%d", lane, m.Sequence)
	if before, known := s.took[key]; known {
		if string(before) != string(body) {
			s.t.Errorf("%s was sent again with other bytes", key)
		}
		return http.StatusConflict
	}
	s.took[key] = body
	s.envelopes[endpoint] = append(s.envelopes[endpoint], m)
	return http.StatusAccepted
}

// store takes in what a request carries.
func (s *server) store(r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	s.accept(path.Base(r.URL.Path), body)
}

// set changes how the server is.
func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// records are those of an endpoint that were accepted, in order, each as the value of one of its fields.
func (s *server) records(endpoint, field string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := []string{}
	for _, m := range s.envelopes[endpoint] {
		for _, raw := range m.Records {
			var record map[string]any
			if err := json.Unmarshal(raw, &record); err != nil {
				s.t.Fatal(err)
			}
			values = append(values, fmt.Sprint(record[field]))
		}
	}
	return values
}

// count returns how many requests there were since a time, at an endpoint or at all.
func (s *server) count(since time.Time, endpoint string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.requests {
		if r.at.After(since) && (endpoint == "" || r.endpoint == endpoint) {
			n++
		}
	}
	return n
}

// pipes is a network of one server, without sockets: it works in a bubble of synctest.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// world is a client and its server in a bubble.
type world struct {
	*server
	t        *testing.T
	client   *clustercontrol.Client
	sender   *clustercontrol.Sender
	registry metrics.KubeRegistry
	network  *pipes
	metrics  *clustercontrol.Metrics
	logged   *lines
	changes  []string
	options  clustercontrol.SenderOptions
	stop     func()
}

// lines are what was logged.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(p))
	return len(p), nil
}

// with returns the lines that contain a text.
func (l *lines) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.text), func(line string) bool { return !strings.Contains(line, text) })
}

func (l *lines) logger() klog.Logger {
	return textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(l), textlogger.Verbosity(2)))
}

func newWorld(t *testing.T, options clustercontrol.SenderOptions) *world {
	t.Helper()
	s := newServer(t)
	w := &world{server: s, t: t, registry: metrics.NewKubeRegistry(), logged: &lines{}, options: options}
	w.network = &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	httpServer := &http.Server{Handler: s}
	go func() { _ = httpServer.Serve(w.network) }()
	m, err := clustercontrol.NewMetrics(w.registry)
	if err != nil {
		t.Fatal(err)
	}
	w.metrics = m
	w.start()
	synctest.Wait() // nothing waits yet
	t.Cleanup(func() {
		w.end()
		s.set(func() {
			if s.hang != nil {
				close(s.hang)
			}
		})
		_ = httpServer.Close()
	})
	return w
}

// value is the sum of a metric over the series whose labels contain these, as name=value.
func (w *world) value(name string, labels ...string) (sum float64) {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "formspec_cluster_control_"+name {
			continue
		}
		for _, series := range family.GetMetric() {
			got := []string{}
			for _, pair := range series.GetLabel() {
				got = append(got, pair.GetName()+"="+pair.GetValue())
			}
			if !slices.ContainsFunc(labels, func(want string) bool { return !slices.Contains(got, want) }) {
				sum += series.GetGauge().GetValue() + series.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// start starts a process.
func (w *world) start() {
	w.t.Helper()
	ctx := klog.NewContext(w.t.Context(), w.logged.logger())
	client, err := clustercontrol.NewClient(ctx, clustercontrol.Options{
		URL: "http://control.example/base", AllowHTTP: true, Metrics: w.metrics,
		Identity: func() (*clustercontrol.Identity, error) { return w.key, nil },
		Changed: func(reachable bool, reason string) {
			w.changes = append(w.changes, fmt.Sprintf("%t %s", reachable, reason))
		},
		Dial: w.connect,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.client = client
	w.options.Cluster = "jkt"
	if w.sender, err = clustercontrol.NewSender(ctx, client, w.options); err != nil {
		w.t.Fatal(err)
	}
	running, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		w.sender.Run(running)
		close(done)
	}()
	w.stop = func() {
		cancel()
		<-done
		w.sender.Close()
		client.CloseIdleConnections()
	}
}

// end ends the process, if it runs.
func (w *world) end() {
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

func (w *world) connect(ctx context.Context, _, _ string) (net.Conn, error) {
	w.mu.Lock()
	dial := w.dial
	w.mu.Unlock()
	if dial != nil {
		if err := dial(); err != nil {
			return nil, err
		}
		<-ctx.Done() // packets are dropped
		return nil, ctx.Err()
	}
	ours, theirs := net.Pipe()
	select {
	case w.network.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.network.closed:
		return nil, net.ErrClosed
	}
}
