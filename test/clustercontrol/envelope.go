// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"
)

// protocol is the only one there is.
const protocol = "formspec-operator/1"

// envelope is what every body is (§5).
type envelope struct {
	Protocol string            `json:"protocol"`
	Cluster  string            `json:"cluster"`
	Instance string            `json:"instance_id"`
	Sequence uint64            `json:"sequence"`
	SentAt   time.Time         `json:"sent_at"`
	Records  []json.RawMessage `json:"records"` // the bytes that were sent
}

// decoder reads envelopes. It is safe for concurrent use.
type decoder struct {
	envelope check
	records  map[Endpoint]check
}

func newDecoder() decoder {
	return decoder{
		envelope: object(map[string]check{
			"protocol":    text,
			"cluster":     text,
			"instance_id": uuid,
			"sequence":    positive,
			"sent_at":     instant,
			"records":     list(anything),
		}),
		records: recordSchemas(),
	}
}

func anything(string, any) error { return nil }

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

func uuid(path string, value any) error {
	if got, ok := value.(string); !ok || !uuidForm.MatchString(got) {
		return wrong(path, "a UUID", value)
	}
	return nil
}

// decode reads a body as far as it can be believed. An error in head means that nothing can: not even who sent it. An error in
// records leaves the rest of the envelope good, and none of its records.
func (d decoder) decode(endpoint Endpoint, body []byte) (e envelope, head, records error) {
	value, err := parse(body)
	if err != nil {
		return envelope{}, fmt.Errorf("the body %w", err), nil
	}
	if err := d.envelope("envelope", value); err != nil {
		return envelope{}, err, nil
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return envelope{}, fmt.Errorf("the body is not an envelope: %w", err), nil
	}
	fields, _ := value.(map[string]any)
	return e, nil, list(d.records[endpoint])("records", fields["records"])
}

// decodeRecords turns the records of an envelope that was decoded without error into values. The envelope adds what is the same for all.
func decodeRecords[T any](e envelope, add func(*T)) ([]T, error) {
	values := make([]T, len(e.Records))
	for i, raw := range e.Records {
		if err := json.Unmarshal(raw, &values[i]); err != nil {
			return nil, fmt.Errorf("records[%d]: %w", i, err)
		}
		add(&values[i])
	}
	return values, nil
}
