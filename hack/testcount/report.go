// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is what "go doc test2json" and "go help buildjson" describe, as far as it is used here.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build events, in place of Package
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// The actions that end a test or a package.
const (
	pass = "pass"
	fail = "fail"
	skip = "skip"
)

// count is the result of all tests, or of those of one package.
type count struct {
	passed, failed, skipped int
}

func (c count) ok() bool { return c.failed == 0 && c.passed > 0 }

func (c count) String() string {
	s := fmt.Sprintf("%d passed, %d failed", c.passed, c.failed)
	if c.skipped > 0 {
		s += fmt.Sprintf(", %d skipped", c.skipped)
	}
	return s
}

// testRun is one test, or with an empty name what the package wrote outside its tests.
type testRun struct {
	result string // empty while it runs
	output strings.Builder
}

// report collects the events of all packages.
type report struct {
	out      io.Writer
	packages map[string]map[string]*testRun // those that have not ended, by import path and test
	builds   map[string]*strings.Builder    // the compiler's output, by import path
	total    count
	slow     []slowTest
}

// slowTest is a test that took long, with its subtests.
type slowTest struct {
	name    string
	seconds float64
}

// What is worth a line at the end: so many tests, of those that took so long.
const (
	slowTests   = 15
	slowSeconds = 20
)

func newReport(out io.Writer) *report {
	return &report{out: out, packages: map[string]map[string]*testRun{}, builds: map[string]*strings.Builder{}}
}

// read handles the events up to the end of the stream. Lines that are no events are passed on.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
			r.handle(e)
		} else {
			fmt.Fprint(r.out, line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) handle(e event) {
	switch e.Action {
	case "build-output":
		b := r.builds[e.ImportPath]
		if b == nil {
			b = &strings.Builder{}
			r.builds[e.ImportPath] = b
		}
		b.WriteString(e.Output)
	case "start", "run":
		r.run(e)
	case "output":
		r.run(e).output.WriteString(e.Output)
	case pass, fail, skip:
		run := r.run(e)
		run.result = e.Action
		if e.Test != "" && !strings.Contains(e.Test, "/") && e.Elapsed >= slowSeconds {
			r.slow = append(r.slow, slowTest{name: e.Package + " " + e.Test, seconds: e.Elapsed})
		}
		if e.Test == "" {
			r.endPackage(e)
		} else if e.Action == pass {
			run.output.Reset() // nobody will read it
		}
	}
}

func (r *report) run(e event) *testRun {
	tests := r.packages[e.Package]
	if tests == nil {
		tests = map[string]*testRun{}
		r.packages[e.Package] = tests
	}
	if tests[e.Test] == nil {
		tests[e.Test] = &testRun{}
	}
	return tests[e.Test]
}

// finish ends the packages whose end never came, because "go test" itself was ended, prints what took longest and returns the count.
func (r *report) finish() count {
	for _, name := range slices.Sorted(maps.Keys(r.packages)) {
		r.endPackage(event{Action: fail, Package: name})
	}
	slices.SortFunc(r.slow, func(a, b slowTest) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, test := range r.slow[:min(len(r.slow), slowTests)] {
		fmt.Fprintf(r.out, "slow  %s %.0fs\n", test.name, test.seconds)
	}
	return r.total
}

func (r *report) endPackage(end event) {
	tests := r.packages[end.Package]
	delete(r.packages, end.Package)
	own := tests[""]
	delete(tests, "")

	var c count
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		test := tests[name]
		if test.result == "" {
			test.result = fail
			test.output.WriteString("    it did not end\n")
		}
		if test.result == fail {
			r.print("--- FAIL: "+end.Package+" "+name, test.output.String())
		}
		if hasSubtests(tests, name, test.result) {
			continue
		}
		switch test.result {
		case pass:
			c.passed++
		case fail:
			c.failed++
		case skip:
			c.skipped++
			r.print("--- SKIP: "+end.Package+" "+name, test.output.String())
		}
	}
	if end.Action == fail {
		if c.failed == 0 {
			c.failed = 1
		}
		if b := r.builds[end.FailedBuild]; b != nil {
			fmt.Fprint(r.out, b.String())
		}
		if own != nil {
			fmt.Fprint(r.out, own.output.String())
		}
	}
	r.total.passed += c.passed
	r.total.failed += c.failed
	r.total.skipped += c.skipped
	if len(tests) > 0 || end.Action == fail {
		fmt.Fprintf(r.out, "%-5s %s (%s) %.1fs\n", end.Action, end.Package, c, end.Elapsed)
	}
}

// hasSubtests tells whether the test's subtests are counted in its place. A test that failed though none of its
// subtests did is counted itself.
func hasSubtests(tests map[string]*testRun, name, result string) bool {
	found, foundFailed := false, false
	for other, test := range tests {
		if strings.HasPrefix(other, name+"/") {
			found = true
			foundFailed = foundFailed || test.result == fail || test.result == ""
		}
	}
	return found && (result != fail || foundFailed)
}

// print writes what a test wrote below a title, without the lines that only repeat the title.
func (r *report) print(title, output string) {
	fmt.Fprintln(r.out, title)
	for line := range strings.Lines(output) {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "=== ") || strings.HasPrefix(trimmed, "--- ") {
			continue
		}
		fmt.Fprint(r.out, line)
	}
}
