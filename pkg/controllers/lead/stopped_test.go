// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lead_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/controllers/lead"
)

// stoppedServer has the URL of the parent's server, and makes TestStoppedProcess the leader that is stopped.
const stoppedServer = "LEAD_TEST_STOPPED_SERVER"

const exitLost = 7

// TestStoppedProcess stops a busy leader with SIGSTOP until another holds the lease, and resumes it: nothing may arrive from it after.
func TestStoppedProcess(t *testing.T) {
	if url := os.Getenv(stoppedServer); url != "" {
		os.Exit(leadAndWrite(url))
	}
	t.Parallel()
	api := &recordingAPI{version: "0", enough: make(chan struct{})}
	server := httptest.NewUnstartedServer(api)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()

	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	leader := exec.CommandContext(ctx, executable, "-test.run=^TestStoppedProcess$")
	leader.Env = append(os.Environ(), stoppedServer+"="+server.URL)
	var output strings.Builder
	leader.Stdout, leader.Stderr = &output, &output
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-api.enough: // it leads and writes
	case <-ctx.Done():
		_ = leader.Wait()
		t.Fatalf("the leader did not write:\n%s", output.String())
	}

	if err := leader.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	<-time.After(2500 * time.Millisecond) // its lease lasts 2 s; what it has sent before is handled by now
	api.takeOver()
	if err := leader.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := leader.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitLost {
		t.Errorf("the old leader ended with %v, want exit code %d", err, exitLost)
	}
	if writes, late := api.seen(); len(late) > 0 {
		t.Errorf("after %d writes, %d arrived from the old leader when another led: %v", writes, len(late), late)
	}
	if t.Failed() {
		t.Log(output.String())
	}
}

// leadAndWrite leads and writes as fast as it can until it loses the lease, and returns the exit code.
func leadAndWrite(url string) int {
	fence := lead.NewFence(clock.RealClock{})
	insecure := &tls.Config{InsecureSkipVerify: true}
	client := &http.Client{Transport: fence.WrapTransport(&http.Transport{
		DialContext:       fence.WrapDial(new(net.Dialer).DialContext),
		TLSClientConfig:   insecure,
		ForceAttemptHTTP2: true,
	})}
	leases := coordinationclient.NewForConfigOrDie(&rest.Config{
		Host:            url,
		QPS:             -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		ContentConfig:   rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
	})
	err := lead.Run(context.Background(), lead.Config{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "lease"},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: "old"},
		},
		Timing: lead.Timing{LeaseDuration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 200 * time.Millisecond},
		Fence:  fence,
	}, func(ctx context.Context) error {
		var writers sync.WaitGroup
		for range 16 {
			writers.Go(func() {
				for ctx.Err() == nil {
					resp, err := client.Post(url+"/write", "text/plain", strings.NewReader("x"))
					if err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}
				}
			})
		}
		writers.Wait()
		return nil
	})
	klog.Background().Error(err, "Old leader ends")
	if errors.Is(err, lead.ErrLost) {
		return exitLost
	}
	return 1
}

// recordingAPI serves one lease and counts writes.
type recordingAPI struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version string
	writes  int
	enough  chan struct{} // closed after some writes
	taken   bool
	late    []string // requests that change something and arrived after the lease was taken
}

func (a *recordingAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		return // half of it came before the stop, and the rest was held back: nothing is written
	}
	if a.taken && r.Method != http.MethodGet {
		a.late = append(a.late, r.Method+" "+r.URL.Path)
	}
	switch {
	case r.URL.Path == "/write":
		if a.writes++; a.writes == 1000 {
			close(a.enough)
		}
	case r.Method == http.MethodGet && a.lease != nil:
		writeJSON(w, http.StatusOK, a.lease)
	case r.Method == http.MethodGet:
		writeJSON(w, http.StatusNotFound, &metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
		})
	default:
		lease := &coordinationv1.Lease{}
		if err := json.Unmarshal(body, lease); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.store(lease)
		writeJSON(w, http.StatusOK, a.lease)
	}
}

func (a *recordingAPI) store(lease *coordinationv1.Lease) {
	a.version += "1"
	lease.ResourceVersion = a.version
	lease.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	a.lease = lease
}

// takeOver gives the lease to another replica.
func (a *recordingAPI) takeOver() {
	a.mu.Lock()
	defer a.mu.Unlock()
	lease := a.lease.DeepCopy()
	lease.Spec.HolderIdentity = new("new")
	lease.Spec.RenewTime = new(metav1.NowMicro())
	a.store(lease)
	a.taken = true
}

func (a *recordingAPI) seen() (writes int, late []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writes, a.late
}

func writeJSON(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}
