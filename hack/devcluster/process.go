package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Every process that devcluster starts carries these variables. They tell it
// from a stranger that has inherited a recorded pid.
const (
	envInstance  = "DEVCLUSTER_INSTANCE"
	envComponent = "DEVCLUSTER_COMPONENT"
)

// killAfter is how long a component may take to end by itself.
const killAfter = 5 * time.Second

// spawn starts a program in a session of its own, so that neither Ctrl-C nor
// the end of this process reaches it, and records its pid.
func (c *instance) spawn(component, program string, args []string) error {
	for _, dir := range []string{"log", "pid"} {
		if err := os.MkdirAll(c.path(dir), 0o700); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(c.logFile(component), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintf(log, "--- %s %s %s\n", time.Now().Format(time.RFC3339), program, strings.Join(args, " "))

	cmd := exec.Command(program, args...)
	cmd.Dir = c.data
	cmd.Env = append(os.Environ(), envInstance+"="+c.data, envComponent+"="+component)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	// A child that dies early would stay visible as a zombie of ours.
	go func() { _ = cmd.Wait() }()
	if err := writeFile(c.pidFile(component), []byte(strconv.Itoa(pid)+"\n"), 0o600); err != nil {
		return err
	}
	// The kernel shows a process's environment only some time after its start;
	// until then the component would pass for dead.
	for alive(pid) && !c.owns(pid, component) {
		time.Sleep(time.Millisecond)
	}
	return nil
}

func (c *instance) pidFile(component string) string { return c.path("pid", component) }

// started tells whether a component was started and not stopped since; if it
// does not run, it has crashed.
func (c *instance) started(component string) bool {
	_, err := os.Stat(c.pidFile(component))
	return err == nil
}

// pid returns the process id of a running component, or 0.
func (c *instance) pid(component string) int {
	content, err := os.ReadFile(c.pidFile(component))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || !c.owns(pid, component) {
		return 0
	}
	return pid
}

// owns tells whether pid is alive and was started by this instance; an empty
// component stands for any.
func (c *instance) owns(pid int, component string) bool {
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	vars := bytes.Split(environ, []byte{0}) // empty for a zombie
	has := func(v string) bool {
		return slices.ContainsFunc(vars, func(b []byte) bool { return string(b) == v })
	}
	return has(envInstance+"="+c.data) && (component == "" || has(envComponent+"="+component))
}

// strays are processes of this instance whose pid is not recorded, left by a
// devcluster that was killed between starting and recording them.
func (c *instance) strays() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && pid != os.Getpid() && c.owns(pid, "") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stopComponents ends components at the same time and forgets their pids.
func (c *instance) stopComponents(ctx context.Context, kill bool, components ...string) error {
	var pids []int
	for _, name := range components {
		if pid := c.pid(name); pid != 0 {
			pids = append(pids, pid)
		}
	}
	if err := c.endAll(ctx, kill, pids); err != nil {
		return err
	}
	for _, name := range components {
		if err := os.Remove(c.pidFile(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// endAll asks processes to end and kills those that take too long.
func (c *instance) endAll(ctx context.Context, kill bool, pids []int) error {
	if !kill {
		c.signal(pids, syscall.SIGTERM)
		if waitGone(ctx, pids, killAfter) {
			return nil
		}
	}
	c.signal(pids, syscall.SIGKILL)
	if !waitGone(ctx, pids, killAfter) {
		return fmt.Errorf("some of the processes %v did not end", pids)
	}
	return nil
}

// signal looks at each process once more first: in the meantime its pid may
// have gone to somebody else.
func (c *instance) signal(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		if c.owns(pid, "") {
			_ = syscall.Kill(pid, sig)
		}
	}
}

// waitGone waits until the processes have closed their files and ports too.
func waitGone(ctx context.Context, pids []int, timeout time.Duration) bool {
	for deadline := time.Now().Add(timeout); slices.ContainsFunc(pids, alive); {
		if time.Now().After(deadline) || sleep(ctx, 20*time.Millisecond) != nil {
			return false
		}
	}
	return true
}

// alive tells whether a process exists and is more than a zombie, which stays
// until its parent has taken notice.
func alive(pid int) bool {
	fields := procStat(pid)
	if len(fields) == 0 {
		return false
	}
	if fields[0] != "Z" && fields[0] != "X" {
		return true
	}
	// A killed process is a zombie as soon as its first thread has ended, but
	// keeps its ports until the last one has.
	threads, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	return err == nil && len(threads) > 1
}

// startTime is when a process started, in clock ticks since boot, as text.
func startTime(pid int) string {
	const index = 22 - 3 // field 22, and the fields begin with the third
	if fields := procStat(pid); len(fields) > index {
		return fields[index]
	}
	return ""
}

// procStat returns the fields of /proc/PID/stat from the third, the state, on.
// The second, the command, may hold spaces and brackets.
func procStat(pid int) []string {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}
