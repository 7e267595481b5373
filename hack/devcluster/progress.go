package main

import (
	"fmt"
	"io"
	"time"
)

// progress prints what is going on, away from standard output, which is kept
// for results.
type progress struct{ out io.Writer }

func (p *progress) line(format string, args ...any) {
	fmt.Fprintf(p.out, format+"\n", args...)
}

// timer returns a function that prints a line ending in the time since now.
func (p *progress) timer() func(format string, args ...any) {
	start := time.Now()
	return func(format string, args ...any) {
		p.line("%-45s %6.1f s", fmt.Sprintf(format, args...), time.Since(start).Seconds())
	}
}
