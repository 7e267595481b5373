// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"testing"
)

// What changes something that all tests of a control plane share (its operator, its API server, the owners' keys, the schemas) has control
// planes of its own, and happens one after the other there, while all other tests go on.
func TestAlone(t *testing.T) {
	t.Parallel()
	env := another(t, "alone")
	inOrder(t, env, []part{
		{"ReplicasBelongToTheAutoscaler", replicasBelongToTheAutoscaler},
		{"DeletionWhileTheOperatorIsDown", deletionWhileTheOperatorIsDown},
		{"LeaderElection", leaderElection},
		{"KEDA", kedaScales},
		{"Outage", apiServerOutage},
		{"OwnerKeysOutage", ownerKeysOutage},
		{"Reports", reportsArrive},
		{"ClusterControlIsAway", clusterControlIsAway},
		{"NamespaceGoesWhileClusterControlIsAway", namespaceGoesWhileClusterControlIsAway},
		{"MeteringAcrossKills", meteringAcrossKills},
		{"AtRest", silentAtRest},
		{"DatastoresAcrossRestarts", datastoresAcrossRestarts},
		{"PasswordsStaySecret", passwordsStaySecret},
	})
	env.operator.stop() // what follows starts its own
	inOrder(t, env, []part{
		{"LimitOutlivesTheLeader", limitOutlivesTheLeader},
		{"LooseSchema", looseSchema}, // the last one: it takes the schemas apart
	})
}

// So has what changes the activator's pods: with these every Workspace that may sleep changes.
func TestSleep(t *testing.T) {
	t.Parallel()
	inOrder(t, another(t, "sleep"), []part{
		{"AndWake", sleepAndWake},
		{"NeverWhileBusy", busyIsNeverPutToSleep},
		{"Routing", routingBothWays},
		{"ByAnnotation", sleepByAnnotation},
		{"IsSilent", sleepersAndBusyAreSilent},
		{"AmongForeignChildren", foreignChildrenOfASleeper},
	})
}

// part is a test in a control plane that it has for itself.
type part struct {
	name string
	test func(*testing.T, *environment)
}

func inOrder(t *testing.T, env *environment, parts []part) {
	t.Helper()
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) { part.test(t, env) })
	}
}

// another is one more control plane, with the programs of the shared one and an operator.
func another(t *testing.T, name string) *environment {
	t.Helper()
	if shared == nil {
		t.Skip("integration tests need a control plane: run go test without -short")
	}
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	env := &environment{dir: shared.path(name)}
	must("make a directory", os.Mkdir(env.dir, 0o755))
	t.Cleanup(func() {
		if err := env.tearDown(); err != nil {
			t.Error(err)
		}
	})
	for _, program := range []string{"devcluster", "formspec-operator"} {
		must("link the program", os.Symlink(filepath.Join("..", program), env.path(program)))
	}
	must("bring it up", env.bringUp(t.Context(), "-"+name))
	return env
}
