// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/formspec/formspec-operator/test/servers"
)

func TestEcho(t *testing.T) {
	r := begin(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, r.url+"/some/path", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "shop.example.com"
	request.Header.Set("X-Forwarded-For", "192.0.2.1")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	have := decode[echoed](t, read(t, response))
	if have.Workspace != "shop" || have.UID != os.Getuid() || have.Pod == "" || have.Method != http.MethodDelete ||
		have.Path != "/some/path" || have.Proto != "HTTP/1.1" || have.Host != "shop.example.com" || have.Headers.Get("X-Forwarded-For") != "192.0.2.1" {
		t.Errorf("the answer is %+v", have)
	}
	if have.Handler.Executable != filepath.Join(r.dataDir, "handler") || have.Handler.UID != os.Getuid() {
		t.Errorf("the executable in %s said %+v", r.dataDir, have.Handler)
	}
}

func TestConfigIsReadAnew(t *testing.T) {
	r := begin(t)
	if code, body := r.get(t, "/config"); code != http.StatusOK || decode[handlerOutput](t, body).Executable != r.binary.path {
		t.Errorf("%d %s", code, body)
	}
	if err := os.Remove(r.binary.path); err != nil {
		t.Fatal(err)
	}
	if code, _ := r.get(t, "/config"); code != http.StatusInternalServerError {
		t.Errorf("without the executable the answer is %d", code)
	}
}

// A mounted ConfigMap has its files behind links in a directory of another name.
func TestReadConfig(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "..2026")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "region"), []byte("jakarta"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"..data": "..2026", "region": "..data/region"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	have, err := readConfig(dir)
	if want := map[string]string{"region": "jakarta"}; err != nil || !maps.Equal(have, want) {
		t.Errorf("got %v, %v; want %v", have, err, want)
	}
	if have, err := readConfig(filepath.Join(dir, "none")); err != nil || len(have) != 0 {
		t.Errorf("without a ConfigMap: %v, %v", have, err)
	}
}

func TestEnvHasNamesAndNoValues(t *testing.T) {
	r := begin(t, func(s *server) {
		s.environ = func() []string {
			return []string{"PATH=/bin", "FORMSPEC_DATASTORE_PG_DSN=postgres://u:secret@h", "FORMA_DATASTORE_PG_DSN=secret"}
		}
	})
	_, body := r.get(t, "/env")
	if have := decode[[]string](t, body); !slices.Equal(have, []string{"FORMA_DATASTORE_PG_DSN", "FORMSPEC_DATASTORE_PG_DSN"}) {
		t.Errorf("got %v", have)
	}
}

func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{})
		close(started)
		handler, w, start := newServer(options{}, nil, started).handler(), httptest.NewRecorder(), time.Now()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/slow?seconds=1.5", nil))
		if took := time.Since(start); w.Code != http.StatusOK || took != 1500*time.Millisecond {
			t.Errorf("answered %d after %s", w.Code, took)
		}
		w = httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/slow?seconds=long", nil))
		if w.Code != http.StatusBadRequest {
			t.Errorf("answered %d", w.Code)
		}
	})
}

func TestConnectToPostgres(t *testing.T) {
	server := servers.Postgres(t, servers.PostgresOptions{})
	r := begin(t)
	t.Setenv("FORMSPEC_DATASTORE_PG_DSN", fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/postgres", server.Password, server.Port))
	if code, body := r.get(t, "/connect?name=FORMSPEC_DATASTORE_PG_DSN"); code != http.StatusOK || decode[connected](t, body).User != "postgres" {
		t.Errorf("%d %s", code, body)
	}
	t.Setenv("FORMSPEC_DATASTORE_PG_DSN", fmt.Sprintf("postgres://postgres:wrong@127.0.0.1:%d/postgres", server.Port))
	if code, body := r.get(t, "/connect?name=FORMSPEC_DATASTORE_PG_DSN"); code != http.StatusBadGateway || !strings.Contains(body, "28P01") {
		t.Errorf("with a wrong password: %d %s", code, body)
	}
}

func TestConnectToRedis(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{Settings: []string{"requirepass secret"}})
	r := begin(t)
	t.Setenv("FORMA_DATASTORE_CACHE_DSN", fmt.Sprintf("redis://:secret@127.0.0.1:%d", server.Port))
	if code, body := r.get(t, "/connect?name=FORMA_DATASTORE_CACHE_DSN"); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	t.Setenv("FORMA_DATASTORE_CACHE_DSN", fmt.Sprintf("redis://:wrong@127.0.0.1:%d", server.Port))
	if code, body := r.get(t, "/connect?name=FORMA_DATASTORE_CACHE_DSN"); code != http.StatusBadGateway {
		t.Errorf("with a wrong password: %d %s", code, body)
	}
}

func TestConnectTellsNothing(t *testing.T) {
	r := begin(t)
	t.Setenv("OTHER", "postgres://user:secret@127.0.0.1:1/db")
	t.Setenv("FORMSPEC_A", "postgres://user:secret@127.0.0.1:1/db")
	t.Setenv("FORMSPEC_B", "postgres://user:secret@127.0.0.1:port/db")
	t.Setenv("FORMSPEC_C", "secret")
	t.Setenv("FORMSPEC_D", "redis://:secret@127.0.0.1:port")
	for name, want := range map[string]int{
		"OTHER": http.StatusNotFound, "FORMSPEC_NONE": http.StatusNotFound, "FORMSPEC_A": http.StatusBadGateway,
		"FORMSPEC_B": http.StatusBadGateway, "FORMSPEC_C": http.StatusBadGateway, "FORMSPEC_D": http.StatusBadGateway,
	} {
		code, body := r.get(t, "/connect?name="+url.QueryEscape(name))
		if code != want || strings.Contains(body, "secret") || strings.Contains(body, "127.0.0.1") {
			t.Errorf("%s: %d %s, want %d", name, code, body, want)
		}
	}
}
