// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package outbox

import (
	"os"
	"syscall"
)

// lockFile locks a file for as long as this process has it open. The kernel unlocks what a killed process has left.
func lockFile(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
