// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"encoding/json"
	"fmt"
	"time"
)

// Protocol is the version of the wire protocol that every envelope names. Source: contract §5.
const Protocol = "formspec-operator/1"

// The headers of a signed request. Source: contract §5.
const (
	// HeaderKeyID is the first 16 hex digits of the SHA-256 of the public key.
	HeaderKeyID = "Formspec-Key-Id"
	// HeaderSignature is the hex ed25519 signature over the exact body; that of a GET is over no bytes.
	HeaderSignature = "Formspec-Signature"
)

// Endpoint is one of the places where Cluster Control takes or gives records. Its value is the last part of the path, and a label of metrics.
type Endpoint string

// The endpoints. Source: contract §5.1 to §5.5.
const (
	Register        Endpoint = "register"
	NodeHealth      Endpoint = "node-health"
	Metering        Endpoint = "metering"
	WorkspaceStatus Endpoint = "workspace-status"
	DeployStatus    Endpoint = "deploy-status" // the one that is read
)

// Endpoints are all of them, in the order of the contract.
func Endpoints() []Endpoint {
	return []Endpoint{Register, NodeHealth, Metering, WorkspaceStatus, DeployStatus}
}

// Path is the path below the base URL.
func (e Endpoint) Path() string { return "/v1/operator/" + string(e) }

// Envelope is the body of every POST. The bytes of one that was handed to the network never change: a retry sends them again, also after a restart.
type Envelope struct {
	// Protocol is Protocol.
	Protocol string `json:"protocol"`
	// Cluster is --cluster-name.
	Cluster string `json:"cluster"`
	// InstanceID is a UUID of the process that made the envelope.
	InstanceID string `json:"instance_id"`
	// Sequence counts from 1 per instance and endpoint. Only node-health may have gaps.
	Sequence int64 `json:"sequence"`
	// SentAt is when the envelope was made, in UTC.
	SentAt time.Time `json:"sent_at"`
	// Records are of the endpoint's type, never null.
	Records []json.RawMessage `json:"records"`
}

// The bounds of what is sent.
const (
	maxRecordBytes   = 64 << 10  // of one record
	maxEnvelopeBytes = 512 << 10 // of the records in one envelope: well below the 1 MiB that proxies let pass by default
	maxRecords       = 500       // in one envelope
)

// encode returns the body of an envelope.
func (e Envelope) encode() ([]byte, error) {
	if e.Records == nil {
		e.Records = []json.RawMessage{}
	}
	e.Protocol, e.SentAt = Protocol, e.SentAt.UTC().Truncate(time.Millisecond)
	body, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode an envelope: %w", err)
	}
	return body, nil
}
