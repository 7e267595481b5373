// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startTimeout is for a busy machine. A server usually takes a second or two.
const startTimeout = time.Minute

// program finds one of the programs, where Debian has those of PostgreSQL too, or skips the test.
func program(tb testing.TB, names ...string) string {
	tb.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		if paths, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(paths) > 0 {
			return paths[len(paths)-1]
		}
	}
	tb.Skipf("%s is not installed: install postgresql and redis-server", names[0])
	return ""
}

// account is whom a server runs as. Root may not run PostgreSQL, so root's servers run as somebody else.
type account struct{ credential *syscall.Credential }

func unprivileged(tb testing.TB) account {
	tb.Helper()
	if os.Geteuid() != 0 {
		return account{}
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		}
	}
	tb.Skip("root may not run PostgreSQL, and there is neither a user postgres nor nobody")
	return account{}
}

// directory makes one that the account owns. those of TempDir are in one that only root may enter.
func (a account) directory(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "server") //nolint:usetesting // see above
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	a.own(tb, dir)
	return dir
}

// file writes one that only the account may read.
func (a account) file(tb testing.TB, path string, content []byte) string {
	tb.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		tb.Fatal(err)
	}
	a.own(tb, path)
	return path
}

func (a account) own(tb testing.TB, path string) {
	tb.Helper()
	if a.credential == nil {
		return
	}
	if err := os.Chown(path, int(a.credential.Uid), int(a.credential.Gid)); err != nil {
		tb.Fatal(err)
	}
}

func (a account) command(dir, name string, arguments ...string) *exec.Cmd {
	cmd := exec.Command(name, arguments...) //nolint:noctx // servers end with their test, by tb.Cleanup
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential, Pdeathsig: syscall.SIGINT} // a test that is killed cleans nothing up
	return cmd
}

// freePort is a port that nobody listened on a moment ago.
func freePort(tb testing.TB) int {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	address, _ := l.Addr().(*net.TCPAddr)
	return address.Port
}

// serve starts a server, waits until it prints the line that says it is ready, and stops it when the test ends. What it
// returns is what the server has printed.
func serve(tb testing.TB, cmd *exec.Cmd, ready string) (output func() string) {
	tb.Helper()
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		writer.Close()
		close(ended)
	}()
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // "fast" for PostgreSQL, and Redis takes it too
		select {
		case <-ended:
		case <-time.After(startTimeout):
			_ = cmd.Process.Kill()
			<-ended
		}
	})

	isReady := make(chan struct{})
	var log strings.Builder
	var mu sync.Mutex
	go func() {
		found := false
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			mu.Lock()
			log.WriteString(lines.Text() + "\n")
			mu.Unlock()
			if !found && strings.Contains(lines.Text(), ready) {
				found = true
				close(isReady)
			}
		}
		_, _ = io.Copy(io.Discard, reader)
	}()
	output = func() string {
		mu.Lock()
		defer mu.Unlock()
		return log.String()
	}
	select {
	case <-isReady:
	case <-ended:
		tb.Fatalf("%s ended instead of serving:\n%s", cmd.Path, output())
	case <-time.After(startTimeout):
		tb.Fatalf("%s is not ready after %s:\n%s", cmd.Path, startTimeout, output())
	}
	return output
}
