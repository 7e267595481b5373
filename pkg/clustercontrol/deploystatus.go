// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxDeployStatusBytes bounds an answer of deploy-status: some thousand items.
const maxDeployStatusBytes = 1 << 20

// hashPattern is what a binary hash may be: it becomes an annotation, and is shown to people.
var hashPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9:._+/=@-]{0,254}$`)

// Batch is one answer of deploy-status: what has been asked for since the cursor before.
type Batch struct {
	// Cursor is the position after the items. It never goes back.
	Cursor int64
	// Items in the order of the server: of two for one Workspace the later one is the newer.
	Items []RestartRequest
}

// decodeDeployStatus reads an answer to a request with ?after=after. Whatever a server answers, it takes no more memory than some times
// the answer. Items that cannot be used are left out and counted; an answer that is wrong as a whole is an error, which quotes none of
// its text.
func decodeDeployStatus(body []byte, after int64) (batch Batch, invalid int, err error) {
	var wire struct {
		Cursor *int64 `json:"cursor"`
		Items  items  `json:"items"`
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(&wire); err != nil {
		return Batch{}, 0, fmt.Errorf("it answers something else than the JSON of deploy-status: %w", withoutText(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Batch{}, 0, errors.New("it answers more than one JSON value")
	}
	switch {
	case wire.Cursor == nil:
		return Batch{}, 0, errors.New("its answer has no cursor")
	case *wire.Cursor < after:
		return Batch{}, 0, fmt.Errorf("its cursor went back from %d to %d: has it lost its data?", after, *wire.Cursor)
	}
	return Batch{Cursor: *wire.Cursor, Items: wire.Items.usable}, wire.Items.invalid, nil
}

// items decodes an array item by item, and drops on the way what cannot be used: a million empty items are not kept in memory.
type items struct {
	usable  []RestartRequest
	invalid int
}

// UnmarshalJSON implements json.Unmarshaler.
func (i *items) UnmarshalJSON(data []byte) error {
	*i = items{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	start, err := decoder.Token()
	if err != nil || start == nil { // null
		return err
	}
	if start != json.Delim('[') {
		return &json.UnmarshalTypeError{Value: "no array"}
	}
	for decoder.More() {
		var item RestartRequest
		err := decoder.Decode(&item)
		if _, wrongType := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !wrongType {
			return err
		}
		switch {
		case err != nil:
			i.invalid++
		case item.Phase != PhaseRestartRequired: // which a newer server may know
		case !item.valid():
			i.invalid++
		default:
			i.usable = append(i.usable, item)
		}
	}
	return nil
}

// valid says whether an item can mean an object, and can be written to one.
func (r RestartRequest) valid() bool {
	const longest = 255
	return len(validation.IsDNS1123Label(r.Namespace)) == 0 &&
		len(validation.IsDNS1123Subdomain(r.Workspace)) == 0 &&
		hashPattern.MatchString(r.BinaryHash) &&
		len(r.ArtifactID) <= longest && len(r.Version) <= longest && printable(r.ArtifactID) && printable(r.Version)
}

func printable(s string) bool {
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return false
		}
	}
	return true
}

// withoutText keeps of an error of encoding/json what it says about the form.
func withoutText(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("not JSON at byte %d", syntax.Offset)
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("field %q of another type at byte %d", kind.Field, kind.Offset)
	}
	return errors.New("not JSON, or cut off")
}
