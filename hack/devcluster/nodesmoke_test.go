package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNode needs root and changes the machine's network while it runs, so it
// has to be asked for.
func TestNode(t *testing.T) {
	if os.Getenv("DEVCLUSTER_TEST_NODE") == "" || os.Getuid() != 0 {
		t.Skip("set DEVCLUSTER_TEST_NODE=1, as root, to try a real node on this machine")
	}
	s := newSmoke(t)
	c := &instance{name: "real", data: filepath.Join(s.data, "real")}
	t.Cleanup(func() {
		if out, err := s.try(s.program, "down", "--name", "real", "--wipe"); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
		if pids := c.strays(); len(pids) > 0 {
			t.Errorf("processes are left: %v", pids)
		}
		for what, command := range map[string][]string{
			"mounts under " + c.data:  {"cat", "/proc/mounts"},
			"network namespaces cni-": {"ip", "netns", "list"},
			"links to cni-devcluster": {"ip", "link"},
			"the table ip kube-proxy": {"nft", "list", "tables"},
		} {
			words := strings.Fields(what)
			if out, err := s.try(command[0], command[1:]...); err != nil || strings.Contains(out, words[len(words)-1]) {
				t.Errorf("%s are left, %v:\n%s", what, err, out)
			}
		}
	})
	s.devcluster("up", "--name", "real", "--nodes", "1")
	s.devcluster("node", "--name", "real", "--tier", "free")
	s.kubectl("real", "wait", "node/node-1", "--for=jsonpath={.metadata.labels.formspec\\.dev/tier}=free", "--timeout=5s")

	// kubectl is a static binary, too, and asks the API server from inside.
	bin, err := binDir()
	if err != nil {
		t.Fatal(err)
	}
	s.devcluster("image", "--name", "real", "devcluster.local/kubectl:1", filepath.Join(bin, "kubectl"))
	s.kubectl("real", "run", "inside", "--image=devcluster.local/kubectl:1", "--restart=Never",
		`--overrides={"spec":{"nodeName":"node-1"}}`, "--", "auth", "whoami")
	s.kubectl("real", "wait", "pod/inside", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
	if out := s.kubectl("real", "logs", "inside"); !strings.Contains(out, "system:serviceaccount:default:default") {
		t.Errorf("inside the pod: %s", out)
	}

	s.devcluster("metrics", "--name", "real")
	if out := s.kubectl("real", "top", "node", "node-1"); !strings.Contains(out, "node-1") {
		t.Errorf("top: %s", out)
	}

	// Everything comes back, and containers do not outlive a down.
	s.devcluster("down", "--name", "real")
	if pids := c.strays(); len(pids) > 0 {
		t.Errorf("processes are left after down: %v", pids)
	}
	s.devcluster("up", "--name", "real")
	s.devcluster("status", "--name", "real")
}
