// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// operatorUser is the service account of manifests/, with its rights.
	operatorUser = "system:serviceaccount:formspec-system:formspec-operator"
	// mainOperator names the operator that all tests share.
	mainOperator = "main"
)

// process is one operator.
type process struct {
	name    string
	logFile string
	metrics string // where it serves them
	cmd     *exec.Cmd
	done    chan struct{} // closed when it has ended
	// troubled says that a test took something away from it: it may log errors.
	troubled bool
}

// start runs an operator under the name, by which the audit log knows it, and waits until its caches are warm.
func (env *environment) start(ctx context.Context, name string, args ...string) (*process, error) {
	kubeconfig := env.path(name + ".kubeconfig")
	if err := env.writeKubeconfig(name, kubeconfig); err != nil {
		return nil, err
	}
	health, err := freeAddress()
	if err != nil {
		return nil, err
	}
	metrics, err := freeAddress()
	if err != nil {
		return nil, err
	}
	env.mu.Lock()
	logFile := env.path(fmt.Sprintf("%s-%d.log", name, len(env.processes)))
	env.mu.Unlock()
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()

	cmd := exec.Command(env.path("formspec-operator"), append([]string{
		"run", "--kubeconfig", kubeconfig, "--metrics-bind-address", metrics, "--health-probe-bind-address", health,
		"--cluster-name", clusterName, "-v=4",
	}, args...)...)
	cmd.Env = append(os.Environ(), "KUBE_CACHE_MUTATION_DETECTOR=true")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{name: name, logFile: logFile, metrics: metrics, cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // the exit code is read from ProcessState
	}()
	env.mu.Lock()
	env.processes = append(env.processes, p)
	env.mu.Unlock()
	if err := p.waitReady(ctx, "http://"+health+"/readyz"); err != nil {
		return p, fmt.Errorf("start operator %s: %w\n%s", name, err, p.tail(20))
	}
	return p, nil
}

func (p *process) waitReady(ctx context.Context, url string) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		if !p.running() {
			return false, errors.New("it ended: " + p.cmd.ProcessState.String())
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
}

// writeKubeconfig lets the administrator act as the operator's service account, under the name of the process.
func (env *environment) writeKubeconfig(name, file string) error {
	config, err := clientcmd.LoadFromFile(env.cluster.kubeconfig)
	if err != nil {
		return err
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = operatorUser
		user.ImpersonateGroups = []string{"system:serviceaccounts", "system:serviceaccounts:formspec-system", "system:authenticated"}
		user.ImpersonateUserExtra = map[string][]string{processExtra: {name}}
	}
	return clientcmd.WriteToFile(*config, file)
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// wait returns the exit code, or an error if the process does not end in time. A process that a signal ended has code -1.
func (p *process) wait(timeout time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(timeout):
		return 0, fmt.Errorf("operator %s still runs after %s\n%s", p.name, timeout, p.tail(20))
	}
}

// stop ends the process, gracefully if it can.
func (p *process) stop() {
	if !p.running() {
		return
	}
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT)
	if _, err := p.wait(patience); err != nil {
		p.signal(syscall.SIGKILL)
		<-p.done
	}
}

// The programming errors that fail the run wherever they occur, and what klog marks as an error, which includes missing rights.
var (
	programmingError = regexp.MustCompile(`DATA RACE|panic|PANIC|Cannot|no kind is registered|concurrent map`)
	errorLine        = regexp.MustCompile(`^E\d{4} `)
	// client-go says so of a list or a look at the lease that a signal cuts off, and of a lease that another candidate has just written.
	cutOff = regexp.MustCompile(`"(Unexpected error when reading response body|Error retrieving lease lock)" err="context canceled"|` +
		`"Failed to update lease" err="Operation cannot be fulfilled on leases`)
)

// complaints returns the lines of the log that no operator should write.
func (p *process) complaints() error {
	file, err := os.Open(p.logFile)
	if err != nil {
		return err
	}
	defer file.Close()
	var found []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if programmingError.MatchString(line) || !p.troubled && errorLine.MatchString(line) && !cutOff.MatchString(line) {
			found = append(found, line)
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("the log of operator %s has %d bad lines, see %s:\n%s",
			p.name, len(found), p.logFile, strings.Join(found[:min(20, len(found))], "\n"))
	}
	return lines.Err()
}

func (p *process) tail(lines int) string { return p.grep("", lines) }

// grep returns the last lines of the log that contain the text.
func (p *process) grep(text string, lines int) string {
	content, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	var found []string
	for line := range strings.Lines(string(content)) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return strings.Join(found[max(0, len(found)-lines):], "")
}
