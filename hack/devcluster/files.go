package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// writeFile replaces a file in one step, so that readers never see half of it.
func writeFile(path string, content []byte, mode os.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(content)
	if err := errors.Join(err, tmp.Chmod(mode), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// lockDir takes an exclusive lock on a directory, which is created when missing
// and may be deleted by whoever holds the lock. waiting, if not nil, is called
// once when somebody else holds it.
func lockDir(ctx context.Context, dir string, waiting func()) (unlock func(), err error) {
	for {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		unlock, err := tryLockDir(dir)
		if err != nil || unlock != nil {
			return unlock, err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		// Polling rather than blocking in flock, which Ctrl-C could not end.
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// tryLockDir returns neither a lock nor an error when the directory is locked
// by another process or is being deleted.
func tryLockDir(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
			return nil, nil
		}
		return nil, err
	}
	// Whoever held the lock may have removed the directory meanwhile; then ours
	// is a lock on nothing.
	held, heldErr := f.Stat()
	now, nowErr := os.Stat(dir)
	if heldErr != nil || nowErr != nil || !os.SameFile(held, now) {
		f.Close()
		return nil, nil
	}
	return func() { f.Close() }, nil
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
