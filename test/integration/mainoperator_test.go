// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"syscall"
)

// restart ends the shared operator with a signal and starts another.
func (s *scenario) restart(signal syscall.Signal) {
	s.Helper()
	s.endMain(signal)
	s.startMain()
}

// whileStopped does something while no operator runs.
func (s *scenario) whileStopped(do func()) {
	s.Helper()
	s.endMain(syscall.SIGTERM)
	do()
	s.startMain()
}

// endMain ends the shared operator. What it was told to end gracefully has to end well.
func (s *scenario) endMain(signal syscall.Signal) {
	s.Helper()
	s.operator.signal(signal)
	code, err := s.operator.wait(patience)
	s.must("end the operator", err)
	if signal == syscall.SIGTERM && code != 0 {
		s.Errorf("the operator ended with code %d, want 0\n%s", code, s.operator.tail(20))
	}
}

func (s *scenario) startMain() {
	s.Helper()
	p, err := s.start(context.WithoutCancel(s.Context()), mainOperator) // in a cleanup, too
	s.must("start the operator", err)
	s.operator = p
}
