// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	tests := map[string]struct {
		stream string
		want   count
		ok     bool
		shows  string // must be in the output
		hides  string // must not be
	}{
		"nothing ran": {
			stream: `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"?   \tp\t[no test files]\n"}
{"Action":"skip","Package":"p"}`,
			want: count{},
		},
		"passed, and what it wrote is not shown": {
			stream: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Elapsed":1.5}`,
			want: count{passed: 1}, ok: true, shows: "pass  p (1 passed, 0 failed) 1.5s", hides: "chatter",
		},
		"what took long is said": {
			stream: `{"Action":"pass","Package":"p","Test":"TestA/x","Elapsed":90}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":90.4}
{"Action":"pass","Package":"p","Test":"TestB","Elapsed":3}
{"Action":"pass","Package":"p","Elapsed":95}`,
			want: count{passed: 2}, ok: true, shows: "slow  p TestA 90s\n", hides: "TestB",
		},
		"failed, and what it wrote is shown": {
			stream: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: got 1\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`,
			want: count{failed: 1}, shows: "a_test.go:7: got 1",
		},
		"subtests are counted in place of their test": {
			stream: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"run","Package":"p","Test":"TestA/y"}
{"Action":"fail","Package":"p","Test":"TestA/y"}
{"Action":"run","Package":"p","Test":"TestA/z"}
{"Action":"skip","Package":"p","Test":"TestA/z"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`,
			want: count{passed: 1, failed: 1, skipped: 1},
		},
		"a test that fails after its subtests passed": {
			stream: `{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`,
			want: count{passed: 1, failed: 1},
		},
		"does not build": {
			stream: `{"ImportPath":"p [p.test]","Action":"build-output","Output":"a.go:3: undefined: x\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`,
			want: count{failed: 1}, shows: "undefined: x",
		},
		"panics outside a test": {
			stream: `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"panic: in TestMain\n"}
{"Action":"fail","Package":"p"}`,
			want: count{passed: 1, failed: 1}, shows: "panic: in TestMain",
		},
		"a test that does not end": {
			stream: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`,
			want: count{failed: 1}, shows: "it did not end",
		},
		"the stream breaks off": {
			stream: `{"Action":"pass","Package":"p","Test":"TestA"}`,
			want:   count{passed: 1, failed: 1},
		},
		"two runs, and lines that are no events": {
			stream: `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}
no event
{"Action":"pass","Package":"q","Test":"TestA"}
{"Action":"pass","Package":"q"}`,
			want: count{passed: 2}, ok: true, shows: "no event",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&out)
			if err := r.read(strings.NewReader(test.stream)); err != nil {
				t.Fatal(err)
			}
			got := r.finish()
			if got != test.want || got.ok() != test.ok {
				t.Errorf("got %v, ok %t, want %v, ok %t", got, got.ok(), test.want, test.ok)
			}
			if !strings.Contains(out.String(), test.shows) {
				t.Errorf("%q is not in the output:\n%s", test.shows, out.String())
			}
			if test.hides != "" && strings.Contains(out.String(), test.hides) {
				t.Errorf("%q is in the output:\n%s", test.hides, out.String())
			}
		})
	}
}
