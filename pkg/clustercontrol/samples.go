// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import "github.com/formspec/formspec-operator/pkg/clustercontrol/outbox"

// What a replica has sampled for slots that nobody has decided yet lies in its outbox as well, on shelves that are the first to give way.
const (
	sampledReadings outbox.Lane = "sampled-readings"
	sampledLives    outbox.Lane = "sampled-lives"
)

// Durable says that there is an OutboxDir, so that samples can outlive the process.
func (s *Sender) Durable() bool { return s.outbox.Durable() }

// SampledReadings is where readings of usage are kept over a crash.
func (s *Sender) SampledReadings() outbox.Shelf { return s.outbox.Shelf(sampledReadings) }

// SampledLives is where it is kept who lived when.
func (s *Sender) SampledLives() outbox.Shelf { return s.outbox.Shelf(sampledLives) }
