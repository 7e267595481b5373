// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets this program be the executable in the data folder.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == handlerArgument {
		main()
		return
	}
	os.Exit(m.Run())
}

// running is a server of a test.
type running struct {
	*server
	url   string
	end   context.CancelFunc // as a signal
	ended chan error         // what serve returned
}

// begin serves until the test ends.
func begin(t *testing.T, change ...func(*server)) *running {
	t.Helper()
	o := options{workspace: "shop", dataDir: t.TempDir()}
	b, err := install(t.Context(), o.dataDir)
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	close(started)
	r := &running{server: newServer(o, b, started), ended: make(chan error, 1)}
	for _, f := range change {
		f(r.server)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	r.end = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ended <- serve(ctx, listener, r.server)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

// get returns the status and the body.
func (r *running) get(t *testing.T, path string) (int, string) {
	t.Helper()
	response, err := http.Get(r.url + path)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, read(t, response)
}

func read(t *testing.T, response *http.Response) string {
	t.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func decode[T any](t *testing.T, body string) T {
	t.Helper()
	var value T
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return value
}

func TestOptions(t *testing.T) {
	for name, test := range map[string]struct {
		environment map[string]string
		want        options
		err         string
	}{
		"none": {want: options{dataDir: os.TempDir()}},
		"all": {
			environment: map[string]string{"WORKSPACE_ID": "shop", "FORMSPEC_DATA_DIR": "/data", "START_DELAY": "30s", "START_MODE": "unavailable"},
			want:        options{workspace: "shop", dataDir: "/data", startDelay: 30 * time.Second, listenEarly: true},
		},
		"no duration": {environment: map[string]string{"START_DELAY": "30"}, err: "START_DELAY must be a duration such as 30s"},
		"no mode":     {environment: map[string]string{"START_MODE": "open"}, err: `START_MODE is "open" and must be closed or unavailable`},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := newOptions(func(name string) string { return test.environment[name] })
			switch {
			case test.err == "" && (err != nil || o != test.want):
				t.Errorf("got %+v, %v; want %+v", o, err, test.want)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("the error is %v, want %s", err, test.err)
			}
		})
	}
}

func TestEverythingIsUnavailableUntilTheStartIsOver(t *testing.T) {
	started := make(chan struct{})
	handler := newServer(options{}, &binary{}, started).handler()
	code := func(path string) int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	for _, path := range []string{"/health", "/"} {
		if have := code(path); have != http.StatusServiceUnavailable {
			t.Errorf("before, %s answers %d", path, have)
		}
	}
	close(started)
	for _, path := range []string{"/health", "/"} {
		if have := code(path); have != http.StatusOK {
			t.Errorf("after, %s answers %d", path, have)
		}
	}
}

func TestAStartThatFails(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	err := run(t.Context(), func(name string) string { return map[string]string{"FORMSPEC_DATA_DIR": missing}[name] })
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "data folder") {
		t.Errorf("without a data folder the error is %v", err)
	}
}

func TestRunningRequestsEndAfterASignal(t *testing.T) {
	r := begin(t)
	reader, writer := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/upload", reader)
	if err != nil {
		t.Fatal(err)
	}
	// The server asks for the body when the request has reached its handler.
	request.Header.Set("Expect", "100-continue")
	request = request.WithContext(httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{Got100Continue: func() {
		r.end()
		<-r.stopping
		go func() {
			_, _ = writer.Write([]byte("late"))
			writer.Close()
		}()
	}}))
	response, err := (&http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Hour}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if have := decode[uploaded](t, read(t, response)); have.Size != 4 {
		t.Errorf("the answer is %+v", have)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}
