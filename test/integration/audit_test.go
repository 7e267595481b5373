// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
)

// processExtra tells operators apart that act as the same user.
const processExtra = "process"

// auditLog is the API server's record of every request.
type auditLog struct {
	path string
	env  *environment
}

// request is one line of the log. Source: audit.k8s.io/v1 Event.
type request struct {
	AuditID    string `json:"auditID"`
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	As         struct {
		Username string              `json:"username"`
		Extra    map[string][]string `json:"extra"`
	} `json:"impersonatedUser"`
	Object struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received time.Time `json:"requestReceivedTimestamp"`
}

func (r request) String() string {
	return fmt.Sprintf("%s %s %s → %d", r.Received.Format("15:04:05.000"), r.Verb, r.RequestURI, r.Response.Code)
}

func (r request) write() bool {
	switch r.Verb {
	case "get", "list", "watch":
		return false
	default:
		return true
	}
}

// process is the name of the operator that sent the request. Empty: it was somebody else.
func (r request) process() string {
	if names := r.As.Extra[processExtra]; r.As.Username == operatorUser && len(names) == 1 {
		return names[0]
	}
	return ""
}

// resource as kubectl has it, such as workspaces/status.
func (r request) resource() string {
	if r.Object.Subresource != "" {
		return r.Object.Resource + "/" + r.Object.Subresource
	}
	return r.Object.Resource
}

// mark is a moment, as the API server sees it.
type mark struct {
	received time.Time
	before   int64 // an offset in the log before anything that was received later
	after    int64 // an offset behind everything that had been answered
}

// mark makes a request that nothing else makes and finds it in the log: what was received earlier comes before it.
func (a *auditLog) mark(ctx context.Context) (mark, error) {
	info, err := os.Stat(a.path)
	if err != nil {
		return mark{}, err
	}
	m := mark{before: info.Size()}
	name := "audit-mark-" + rand.String(10)
	if _, err := a.env.kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return m, fmt.Errorf("mark the audit log: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		err := a.scan(m.before, -1, name, func(end int64, r request) {
			if r.Object.Name == name {
				m.received, m.after = r.Received, end
			}
		})
		return m.after > 0, err
	})
	return m, err
}

// between returns what operators sent after from and before to, but watches.
func (a *auditLog) between(ctx context.Context, from, to mark) ([]request, error) {
	end, err := a.mark(ctx) // what to was still waiting for is answered
	if err != nil {
		return nil, err
	}
	var found []request
	seen := map[string]bool{}
	err = a.scan(from.before, end.after, operatorUser, func(_ int64, r request) {
		if r.process() == "" || r.Verb == "watch" || seen[r.AuditID] || r.Received.Before(from.received) || r.Received.After(to.received) {
			return
		}
		seen[r.AuditID] = true
		found = append(found, r)
	})
	return found, err
}

// scan calls back for each whole line that begins between two offsets and contains the text, with the offset of its end. A negative to is
// the end of the file.
func (a *auditLog) scan(from, to int64, text string, each func(end int64, r request)) error {
	file, err := os.Open(a.path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return err
	}
	lines, at := bufio.NewReader(file), from
	for to < 0 || at < to {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // the last line may be half written
		}
		if err != nil {
			return err
		}
		first := at == from
		at += int64(len(line))
		if !bytes.Contains(line, []byte(text)) {
			continue // most lines are of Kubernetes' own controllers
		}
		var r request
		err = json.Unmarshal(line, &r)
		if err != nil && first {
			continue // the second half of a line
		}
		if err != nil {
			return fmt.Errorf("read the audit log: %w: %s", err, line)
		}
		each(at, r)
	}
	return nil
}
