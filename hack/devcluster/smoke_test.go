package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// smoke runs the real program against real components.
type smoke struct {
	t       *testing.T
	program string
	data    string
	env     []string
}

// newSmoke builds devcluster, or skips the test where the components have not
// been built, which takes minutes.
func newSmoke(t *testing.T) *smoke {
	t.Helper()
	bin, err := binDir()
	if err != nil {
		t.Fatal(err)
	}
	if missing := missingPrograms(bin, programNames(false)); len(missing) > 0 {
		t.Skipf("%s is not in %s; run: devcluster build", missing[0].name, bin)
	}
	s := &smoke{t: t, program: filepath.Join(t.TempDir(), "devcluster"), data: t.TempDir()}
	s.env = append(os.Environ(), "DEVCLUSTER_DATA="+s.data)
	s.run("go", "build", "-o", s.program, ".")
	return s
}

func (s *smoke) try(name string, args ...string) (string, error) {
	// Not the test's own context, which has ended when it cleans up.
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s *smoke) run(name string, args ...string) string {
	s.t.Helper()
	out, err := s.try(name, args...)
	if err != nil {
		s.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func (s *smoke) devcluster(args ...string) string {
	s.t.Helper()
	return s.run(s.program, args...)
}

// kubectl uses the instance's own kubectl and kubeconfig.
func (s *smoke) kubectl(name string, args ...string) string {
	s.t.Helper()
	bin, err := binDir()
	if err != nil {
		s.t.Fatal(err)
	}
	return s.run(filepath.Join(bin, "kubectl"), append([]string{"--kubeconfig", filepath.Join(s.data, name, "kubeconfig")}, args...)...)
}

func TestSmoke(t *testing.T) {
	s := newSmoke(t)
	one := &instance{name: "one", data: filepath.Join(s.data, "one")}
	two := &instance{name: "two", data: filepath.Join(s.data, "two")}
	t.Cleanup(func() {
		for _, c := range []*instance{one, two} {
			if pids := c.strays(); len(pids) > 0 {
				t.Errorf("processes of instance %s are left: %v", c.name, pids)
				_ = c.endAll(context.Background(), true, pids)
			}
		}
	})

	// Two at once, the second of which goes down with this process.
	both := make(chan string)
	go func() {
		out, err := s.try(s.program, "up", "--name", "two", "--components", "etcd,kube-apiserver", "--audit", "--die-with", strconv.Itoa(os.Getpid()))
		if err != nil {
			out = err.Error() + "\n" + out
			t.Errorf("up: %s", out)
		}
		both <- out
	}()
	s.devcluster("up", "--name", "one", "--nodes", "3", "--nodes-unlabelled", "1")
	<-both

	if nodes := s.kubectl("one", "get", "nodes", "--no-headers"); strings.Count(nodes, " Ready ") != 4 {
		t.Errorf("not 4 nodes are Ready:\n%s", nodes)
	}
	if nodes := s.kubectl("one", "get", "nodes", "-l", "!formspec.dev/environment", "-o", "name"); strings.TrimSpace(nodes) != "node/sim-unlabelled-1" {
		t.Errorf("nodes without labels: %s", nodes)
	}
	if out := s.devcluster("nodes", "--name", "one", "--count", "2", "--environment", "dev"); len(strings.Fields(out)) != 2 {
		t.Errorf("nodes printed %s", out)
	}
	s.kubectl("one", "create", "deployment", "web", "--image=web:v1", "--replicas=2")
	s.kubectl("one", "rollout", "status", "deployment/web", "--timeout=30s")
	if token := s.kubectl("one", "create", "token", "default"); strings.Count(token, ".") != 2 {
		t.Errorf("no token: %s", token)
	}

	// What was written before an outage is there after it, at the same address.
	before := s.kubectl("one", "get", "deployment", "web", "-o", "jsonpath={.metadata.uid}")
	s.devcluster("stop", "--name", "one", "kube-apiserver", "--kill")
	if out, err := s.try(s.program, "status", "--name", "one"); err == nil {
		t.Errorf("status is content without an API server:\n%s", out)
	}
	s.devcluster("start", "--name", "one", "kube-apiserver")
	if after := s.kubectl("one", "get", "deployment", "web", "-o", "jsonpath={.metadata.uid}"); after != before {
		t.Errorf("the deployment was %s and is %s", before, after)
	}

	// A new kwok takes over the nodes at once.
	s.devcluster("stop", "--name", "one", "kwok")
	s.devcluster("start", "--name", "one", "kwok")
	s.kubectl("one", "run", "single", "--image=web:v1")
	s.kubectl("one", "wait", "pod/single", "--for=condition=Ready", "--timeout=20s")
	s.kubectl("one", "run", "bad", "--image=web:broken")
	s.kubectl("one", "wait", "pod/bad", "--for=jsonpath={.status.containerStatuses[0].state.waiting.reason}=CrashLoopBackOff", "--timeout=20s")
	s.kubectl("one", "run", "lost", "--image=web:missing")
	s.kubectl("one", "wait", "pod/lost", "--for=jsonpath={.status.containerStatuses[0].state.waiting.reason}=ImagePullBackOff", "--timeout=20s")
	s.kubectl("one", "delete", "pod", "single", "bad", "lost", "--timeout=20s")

	s.devcluster("up", "--name", "one")
	s.devcluster("status", "--name", "one")
	s.kubectl("two", "get", "namespaces")
	if log, err := os.ReadFile(filepath.Join(s.data, "two", "audit.log")); err != nil || !strings.Contains(string(log), "/api/v1/namespaces") {
		t.Errorf("the request is not in the audit log: %v", err)
	}

	if out, err := s.try(s.program, "up", "--name", "one", "--audit"); err == nil || !strings.Contains(out, "devcluster down") {
		t.Errorf("up with other options: %v\n%s", err, out)
	}
	s.devcluster("down", "--name", "one")
	if out := s.devcluster("up", "--name", "one"); !strings.Contains(out, "6 nodes are Ready") {
		t.Errorf("nodes are lost after down and up:\n%s", out)
	}
	s.devcluster("down", "--name", "one", "--wipe")
	s.devcluster("down", "--name", "two", "--wipe")
	if left, err := os.ReadDir(s.data); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v %v", left, err)
	}
}

// A test that is killed cannot clean up after itself.
func TestDieWith(t *testing.T) {
	s := newSmoke(t)
	parent := exec.Command("/bin/sleep", "1000")
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	s.devcluster("up", "--name", "child", "--components", "etcd", "--die-with", strconv.Itoa(parent.Process.Pid))
	c := &instance{name: "child", data: filepath.Join(s.data, "child")}
	if c.pid("etcd") == 0 || c.pid(reaper) == 0 {
		t.Fatal("not everything runs")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		_, err := os.Stat(c.data)
		if os.IsNotExist(err) && len(c.strays()) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left are processes %v, and the data directory: %v", c.strays(), err)
		}
	}
}
