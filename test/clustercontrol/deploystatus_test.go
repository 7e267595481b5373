// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol_test

import (
	"net/http"
	"strings"
	"testing"

	cc "github.com/formspec/formspec-operator/test/clustercontrol"
)

func restart(t *testing.T, server *cc.Server, workspace, hash string) int64 {
	t.Helper()
	added, err := server.RequestRestart(cc.Restart{
		Namespace: "tenant", Workspace: workspace, BinaryHash: hash, ArtifactID: "a-" + hash, Version: "1",
	})
	if err != nil {
		t.Fatal(err)
	}
	return added.Cursor
}

func TestDeployStatus(t *testing.T) {
	server, o := serve(t, cc.Options{})
	answer, got := o.poll(0, "")
	if answer.status != 200 || got.Cursor != 0 || got.Items == nil || len(got.Items) != 0 {
		t.Errorf("with nothing to tell: %d, %+v", answer.status, got)
	}
	etag := answer.header.Get("ETag")
	if answer, _ := o.poll(0, etag); answer.status != http.StatusNotModified || answer.header.Get("ETag") != etag {
		t.Errorf("the same again: %d, %q", answer.status, answer.header.Get("ETag"))
	}
	if answer, _ := o.poll(0, `"x", W/`+etag); answer.status != http.StatusNotModified {
		t.Errorf("one of several tags: %d", answer.status)
	}

	restart(t, server, "shop", "h1")
	restart(t, server, "blog", "h2")
	newest := restart(t, server, "shop", "h3")
	answer, got = o.poll(0, etag)
	if answer.status != 200 || got.Cursor != newest || len(got.Items) != 2 ||
		got.Items[0].Workspace != "blog" || got.Items[1].BinaryHash != "h3" || got.Items[1].ArtifactID != "a-h3" ||
		got.Items[1].Phase != "restart_required" {
		t.Errorf("the newest of each: %d, %+v", answer.status, got)
	}
	if _, got = o.poll(newest-1, ""); len(got.Items) != 1 || got.Items[0].Workspace != "shop" {
		t.Errorf("after the last but one: %+v", got)
	}
	if _, got = o.poll(newest, ""); len(got.Items) != 0 || got.Cursor != newest {
		t.Errorf("after the last: %+v", got)
	}
	if poll := server.State().Polls[cluster]; poll.After != newest || poll.Count != 6 {
		t.Errorf("the poll was noted as %+v", poll)
	}
	wantViolations(t, server)
}

func TestDeployStatusIsForOneCluster(t *testing.T) {
	server, o := serve(t, cc.Options{})
	if _, err := server.RequestRestart(cc.Restart{Cluster: "sby-01", Namespace: "tenant", Workspace: "shop", BinaryHash: "h"}); err != nil {
		t.Fatal(err)
	}
	if _, got := o.poll(0, ""); len(got.Items) != 0 {
		t.Errorf("got what is for another cluster: %+v", got)
	}
	if _, err := server.RequestRestart(cc.Restart{Cluster: cluster, Namespace: "tenant", Workspace: "shop", BinaryHash: "h"}); err != nil {
		t.Fatal(err)
	}
	if _, got := o.poll(0, ""); len(got.Items) != 1 || got.Cursor != 2 {
		t.Errorf("got %+v", got)
	}
}

// A key that may speak for any cluster polls for the one that it spoke for.
func TestDeployStatusForAKeyOfAnyCluster(t *testing.T) {
	server, o := serve(t, cc.Options{})
	free := o.with(2)
	if err := server.Trust(cc.TrustedKey{Public: trusted(free.key).Public}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sby-01", cluster} {
		if _, err := server.RequestRestart(cc.Restart{Cluster: name, Namespace: "tenant", Workspace: "of-" + name, BinaryHash: "h"}); err != nil {
			t.Fatal(err)
		}
	}
	wantStatus(t, free.report(cc.Health, health), 200)
	if _, got := free.poll(0, ""); len(got.Items) != 1 || got.Items[0].Workspace != "of-"+cluster {
		t.Errorf("got %+v", got)
	}
}

func TestRestartIsConsumed(t *testing.T) {
	server, o := serve(t, cc.Options{})
	restart(t, server, "shop", "h1")
	restart(t, server, "blog", "h2")
	restart(t, server, "shop", "h3")
	restart(t, server, "shop", "h4")
	wantStatus(t, o.report(cc.WorkspaceReport, strings.Replace(status, `"uid"`, `"restart_required_consumed":3,"uid"`, 1)), 200)
	for i, want := range []bool{true, false, true, false} {
		if got := server.State().Restarts[i]; got.Consumed != want {
			t.Errorf("%+v: want consumed %v", got, want)
		}
	}
}

func TestPollsThatAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		query  string
		change func(*http.Request)
		status int
		kind   cc.Kind
	}{
		"no cursor":       {"?after=x", func(*http.Request) {}, 400, cc.BadRequest},
		"a negative one":  {"?after=-1", func(*http.Request) {}, 400, cc.BadRequest},
		"no signature":    {"", func(r *http.Request) { r.Header.Del("Formspec-Signature") }, 401, cc.BadSignature},
		"of another body": {"", func(r *http.Request) { r.Header.Set("Formspec-Signature", strings.Repeat("0", 128)) }, 401, cc.BadSignature},
	} {
		t.Run(name, func(t *testing.T) {
			server, o := serve(t, cc.Options{})
			got, err := o.try(http.MethodGet, "deploy-status"+test.query, nil, test.change)
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, got.status, test.status)
			wantViolations(t, server, test.kind)
		})
	}
}

func TestRestartNeedsWhatIsSent(t *testing.T) {
	server, _ := serve(t, cc.Options{})
	if _, err := server.RequestRestart(cc.Restart{Namespace: "tenant", Workspace: "shop"}); err == nil || !strings.Contains(err.Error(), "binary_hash") {
		t.Errorf("got %v", err)
	}
}
