package main

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

func TestOnlyOwnProcessesAreStopped(t *testing.T) {
	isolate(t)
	a, b := testInstance(t, "a"), testInstance(t, "b")
	if err := a.spawn("etcd", "/bin/sleep", []string{"100"}); err != nil {
		t.Fatal(err)
	}
	pid := a.pid("etcd")
	if pid == 0 {
		t.Fatal("the process does not count as running right after its start")
	}
	t.Cleanup(func() { _ = a.stopComponents(t.Context(), true, "etcd") })

	// A pid file may be left over while its number has gone to somebody else:
	// another instance, another component or no devcluster at all.
	stranger := exec.Command("/bin/sleep", "100")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	for name, file := range map[string]struct {
		of        *instance
		component string
		pid       int
	}{
		"another instance":  {b, "etcd", pid},
		"another component": {a, "kwok", pid},
		"a stranger":        {a, "kube-scheduler", stranger.Process.Pid},
		"nobody":            {a, "kube-apiserver", 1 << 30},
	} {
		if err := os.MkdirAll(file.of.path("pid"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file.of.pidFile(file.component), []byte(strconv.Itoa(file.pid)), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := file.of.pid(file.component); got != 0 {
			t.Errorf("%s: pid() = %d, want 0", name, got)
		}
		if err := file.of.stopComponents(t.Context(), false, file.component); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !alive(pid) || !alive(stranger.Process.Pid) {
			t.Fatalf("%s: a process was stopped that is not the component's", name)
		}
	}

	if err := a.stopComponents(t.Context(), false, "etcd"); err != nil {
		t.Fatal(err)
	}
	if alive(pid) || a.started("etcd") {
		t.Error("the process was not stopped")
	}
}

func TestAliveAndStartTime(t *testing.T) {
	if !alive(os.Getpid()) || startTime(os.Getpid()) == "" {
		t.Error("this process is not alive")
	}
	child := exec.Command("/bin/true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	for deadline := time.Now().Add(5 * time.Second); alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a zombie counts as alive")
		}
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if alive(pid) || startTime(pid) != "" {
		t.Error("a process that is gone counts as alive")
	}
}

func TestStraysAreFound(t *testing.T) {
	isolate(t)
	c := testInstance(t, "one")
	if err := c.spawn("etcd", "/bin/sleep", []string{"100"}); err != nil {
		t.Fatal(err)
	}
	pid := c.pid("etcd")
	if err := os.Remove(c.pidFile("etcd")); err != nil {
		t.Fatal(err)
	}
	if got := c.strays(); len(got) != 1 || got[0] != pid {
		t.Errorf("strays() = %v, want [%d]", got, pid)
	}
	if err := c.endAll(t.Context(), true, c.strays()); err != nil {
		t.Fatal(err)
	}
}
