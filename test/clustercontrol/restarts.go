// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Restart is an artifact whose binary a Workspace's pods must be restarted for (§5.5).
type Restart struct {
	// Cursor is given by the server, from 1 on.
	Cursor int64 `json:"cursor"`
	// Cluster is the only one that is told. Empty: every cluster is.
	Cluster    string `json:"cluster,omitempty"`
	Namespace  string `json:"namespace"`
	Workspace  string `json:"workspace"`
	BinaryHash string `json:"binary_hash"`
	ArtifactID string `json:"artifact_id"`
	Version    string `json:"version"`
	// Consumed means that the Workspace's status named it, or a newer one. It is set by the server.
	Consumed bool `json:"consumed"`
}

func (r Restart) validate() error {
	if r.Namespace == "" || r.Workspace == "" || r.BinaryHash == "" {
		return errors.New("namespace, workspace and binary_hash are required")
	}
	return nil
}

// deployItem is a Restart on the wire.
type deployItem struct {
	Namespace  string `json:"namespace"`
	Workspace  string `json:"workspace"`
	Phase      string `json:"phase"`
	BinaryHash string `json:"binary_hash"`
	ArtifactID string `json:"artifact_id"`
	Version    string `json:"version"`
}

type deployAnswer struct {
	Cursor int64        `json:"cursor"`
	Items  []deployItem `json:"items"`
}

// deployStatus is the answer to a poll, and its entity tag: what was asked for after a cursor, oldest first. One cursor is
// for the whole answer, so it has the newest restart of each Workspace only.
func (l *ledger) deployStatus(cluster string, after int64) (body []byte, etag string, err error) {
	answer := deployAnswer{Cursor: after, Items: []deployItem{}}
	for i, r := range l.restarts {
		if r.Cursor <= after || !r.meantFor(cluster) {
			continue
		}
		answer.Cursor = r.Cursor
		if !superseded(r, l.restarts[i+1:], cluster) {
			answer.Items = append(answer.Items, deployItem{r.Namespace, r.Workspace, "restart_required", r.BinaryHash, r.ArtifactID, r.Version})
		}
	}
	if body, err = json.Marshal(answer); err != nil {
		return nil, "", fmt.Errorf("encode deploy-status: %w", err)
	}
	hash := sha256.Sum256(body)
	return body, `"` + hex.EncodeToString(hash[:8]) + `"`, nil
}

func (r Restart) meantFor(cluster string) bool {
	return r.Cluster == "" || cluster == "" || r.Cluster == cluster
}

func superseded(r Restart, later []Restart, cluster string) bool {
	for _, other := range later {
		if other.Namespace == r.Namespace && other.Workspace == r.Workspace && other.meantFor(cluster) {
			return true
		}
	}
	return false
}

// consume marks the restart that a status says was consumed, and those before it that it supersedes.
func (l *ledger) consume(w Workspace) {
	for i, r := range l.restarts {
		if r.Cursor <= w.Consumed && r.Namespace == w.Namespace && r.Workspace == w.Name && r.meantFor(w.Cluster) {
			l.restarts[i].Consumed = true
		}
	}
}

// matches tells whether a client has the entity already (RFC 9110 §13.1.2; the comparison is the weak one).
func matches(ifNoneMatch, etag string) bool {
	for tag := range strings.SplitSeq(ifNoneMatch, ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
			return true
		}
	}
	return false
}
