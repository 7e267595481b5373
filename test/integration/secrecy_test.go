// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// No part of a connection string but host and database gets anywhere but into Secrets: malformed or not, at every level of logging. FR-18.
func passwordsStaySecret(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	s.endMain(syscall.SIGTERM)
	p, err := s.start(t.Context(), mainOperator, "-v=10")
	s.must("start the operator", err)
	s.operator = p
	s.Cleanup(func() { s.restart(syscall.SIGTERM) })

	const password = "hunter2"
	me, user := s.publishedOwner(), s.login()
	user.changePassword(password)
	port := user.server.Port
	rows := map[string]struct {
		driver v1alpha1.Driver
		uri    string
		reason string // empty: it works
	}{
		"port":     {v1alpha1.DriverPostgres, "postgres://u:hunter2@h:abc/db", v1alpha1.ReasonInvalidConnectionString},
		"percent":  {v1alpha1.DriverPostgres, "postgres://u:p%SShunter2@h/db", v1alpha1.ReasonInvalidConnectionString},
		"slash":    {v1alpha1.DriverPostgres, "postgres://u:hunter2/x@h/db", v1alpha1.ReasonInvalidConnectionString},
		"scheme":   {v1alpha1.DriverPostgres, "hunter2", v1alpha1.ReasonInvalidConnectionString},
		"keyword":  {v1alpha1.DriverPostgres, "host=h password='hunter2", v1alpha1.ReasonInvalidConnectionString},
		"mode":     {v1alpha1.DriverPostgres, "postgres://u:hunter2@h/db?sslmode=hunter2", v1alpha1.ReasonUnsupportedTLSMode},
		"option":   {v1alpha1.DriverPostgres, "postgres://u:pw@no-such-host.invalid/db?hunter2=hunter2", v1alpha1.ReasonUnreachable},
		"redis":    {v1alpha1.DriverRedis, "redis://u:hunter2@h:port", v1alpha1.ReasonInvalidConnectionString},
		"s3":       {v1alpha1.DriverS3, "https://key:hunter2@[/bucket", v1alpha1.ReasonInvalidConnectionString},
		"query":    {v1alpha1.DriverPostgres, fmt.Sprintf("postgres://127.0.0.1:%d/app?user=nobody&password=hunter2&sslmode=disable", port), v1alpha1.ReasonAuthenticationFailed},
		"wrong":    {v1alpha1.DriverPostgres, fmt.Sprintf("postgres://nobody:hunter2@127.0.0.1:%d/app?sslmode=disable", port), v1alpha1.ReasonAuthenticationFailed},
		"no-host":  {v1alpha1.DriverPostgres, "postgres://u:hunter2@no-such-host.invalid/db", v1alpha1.ReasonUnreachable},
		"newline":  {v1alpha1.DriverPostgres, user.uri() + "\n", ""},
		"nobodies": {v1alpha1.DriverRedis, strings.Replace(s.redisURI(), "open%20sesame", "hunter2", 1), v1alpha1.ReasonAuthenticationFailed},
	}
	shop := s.workspace("shop", s.class())
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		me.datastore(name, rows[name].driver, rows[name].uri)
		me.grant(name, name, "shop")
	}
	for name, row := range rows {
		ds := &store{scenario: s, name: name}
		if row.reason == "" {
			ds.ready()
			continue
		}
		ds.failing(row.reason)
	}
	shop.injects(variables("newline", parts...)...).ready()
	s.eventually("the line end is told of", func() error {
		if events := s.kubectl("get", "events", "-o", "yaml"); !strings.Contains(events, v1alpha1.ReasonTrimmed) {
			return fmt.Errorf("there is no event %s", v1alpha1.ReasonTrimmed)
		}
		return nil
	})

	// then
	if have := string((&store{scenario: s, name: "newline"}).managed().Data["password"]); have != password {
		t.Fatalf("the password is %q, so this test finds nothing", have)
	}
	log, err := os.ReadFile(p.logFile)
	s.must("read the log", err)
	for what, text := range map[string]string{
		"our objects":   s.kubectl("get", "workspaces,datastores.formspec.dev,resourceclaims.formspec.dev", "-o", "yaml", "--show-managed-fields"),
		"what we made":  s.kubectl("get", "deployments,replicasets,pods,services,configmaps", "-o", "yaml", "--show-managed-fields"),
		"the events":    s.kubectl("get", "events", "-o", "yaml"),
		"the log":       string(log),
		"the metrics":   p.scrape(s),
		"the processes": fmt.Sprint(p.cmd.Args, p.cmd.Env),
	} {
		if len(text) < 200 {
			t.Errorf("%s are only %q", what, text)
		}
		if i := strings.Index(text, password); i >= 0 {
			t.Errorf("a password is in %s:\n%s", what, text[max(0, i-300):min(len(text), i+100)])
		}
		if i := strings.Index(text, base64.StdEncoding.EncodeToString([]byte(password))[:9]); i >= 0 {
			t.Errorf("a password is in %s, encoded:\n%s", what, text[max(0, i-300):min(len(text), i+100)])
		}
	}
}

// scrape reads the metrics of an operator.
func (p *process) scrape(s *scenario) string {
	s.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "https://"+p.metrics+"/metrics", http.NoBody)
	s.must("scrape", err)
	response, err := client.Do(request)
	s.must("scrape", err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	s.must("scrape", err)
	return string(content)
}

// The operator's memory holds no data of Secrets that are none of its business. FR-36.
func TestMemoryHoldsNoForeignSecrets(t *testing.T) {
	t.Parallel()
	s := given(t)
	marker, own := rand.String(24), "own"+rand.String(21) // multiples of 3: their base64 is the same wherever they are
	for i := range 200 {
		s.secret(fmt.Sprintf("foreign-%d", i), map[string]string{"data": strings.Repeat(marker, 10<<10/len(marker))})
	}
	me, user := s.publishedOwner(), s.login()
	user.changePassword(own)
	me.datastore("pg", v1alpha1.DriverPostgres, user.uri()).ready() // what came before has been seen, too
	me.grant("pg", "pg", "shop")
	s.workspace("shop", s.class(), lists("pg", v1alpha1.DriverPostgres)).ready()

	// then
	found := s.searchMemory(s.operator.cmd.Process.Pid, own, marker, base64.StdEncoding.EncodeToString([]byte(marker)))
	if found[own] == 0 {
		t.Errorf("the password of a datastore is not in the memory of the operator, so this test finds nothing")
	}
	delete(found, own)
	for text, times := range found {
		t.Errorf("%d times the operator has %q in its memory", times, text)
	}
}

// searchMemory counts texts in everything that a process can write to.
func (s *scenario) searchMemory(pid int, texts ...string) map[string]int {
	s.Helper()
	regions, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	s.must("read the memory map", err)
	defer regions.Close()
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	s.must("read the memory", err)
	defer memory.Close()

	found := map[string]int{}
	var from, to uint64
	var skip bool
	for lines := bufio.NewScanner(regions); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if first, last, ok := strings.Cut(fields[0], "-"); ok && len(fields) > 1 && len(fields[1]) == 4 {
			from, _ = strconv.ParseUint(first, 16, 64)
			to, _ = strconv.ParseUint(last, 16, 64)
			// The race detector's own maps are larger than any machine's memory.
			skip = !strings.HasPrefix(fields[1], "rw") || to-from > 16<<30
			continue
		}
		if fields[0] == "Rss:" && fields[1] != "0" && !skip {
			s.searchRegion(memory, from, to, found, texts)
		}
	}
	return found
}

func (s *scenario) searchRegion(memory io.ReaderAt, from, to uint64, found map[string]int, texts []string) {
	const size, overlap = 4 << 20, 64
	buffer := make([]byte, size)
	for at := from; at < to; at += size - overlap {
		n, _ := memory.ReadAt(buffer[:min(size, to-at)], int64(at)) // what cannot be read is not there
		for _, text := range texts {
			if count := bytes.Count(buffer[:n], []byte(text)); count > 0 {
				found[text] += count
			}
		}
	}
}
