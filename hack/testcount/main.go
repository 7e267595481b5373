// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command testcount reads the output of one or more runs of "go test -json", prints it for people (a line for each
// package, everything that a failed test wrote, what took longest) and counts the tests. Its last line is the count:
//
//	12 passed, 0 failed, 1 skipped
//
// A test with subtests is not counted, its subtests are. A package that fails without a failed test (it does not build,
// panics or runs out of time) counts as one failure. The exit code is 1 if anything failed or if no test ran at all.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	summary := flag.String("summary", "", "file that gets the count as well")
	flag.Parse()

	report := newReport(os.Stdout)
	err := report.read(os.Stdin)
	total := report.finish()
	fmt.Println(total)
	if *summary != "" && err == nil {
		err = os.WriteFile(*summary, []byte(total.String()+"\n"), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
		os.Exit(1)
	}
	if !total.ok() {
		os.Exit(1)
	}
}
