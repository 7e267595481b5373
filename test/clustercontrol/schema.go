// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// check returns what is wrong with a JSON value: a string, a json.Number, a bool, nil, []any or map[string]any. The path
// says where it is.
type check func(path string, value any) error

// parse reads one JSON value. Unlike encoding/json it refuses bytes that are no UTF-8, and keys that occur twice: two
// readers of the same signed bytes could otherwise understand different things.
func parse(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	value, err := parseValue(decoder, 0)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has something after the JSON value")
	}
	return value, nil
}

// maxDepth is deeper than any record is.
const maxDepth = 16

func parseValue(decoder *json.Decoder, depth int) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth == maxDepth {
		return nil, fmt.Errorf("is nested deeper than %d", maxDepth)
	}
	list, fields := []any{}, map[string]any{}
	for decoder.More() {
		var key string
		if delim == '{' {
			token, err := decoder.Token()
			if err != nil {
				return nil, fmt.Errorf("is not JSON: %w", err)
			}
			key, _ = token.(string) // the decoder lets nothing else be a key
			if _, twice := fields[key]; twice {
				return nil, fmt.Errorf("has the key %q twice", key)
			}
		}
		value, err := parseValue(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
		fields[key] = value
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if delim == '{' {
		return fields, nil
	}
	return list, nil
}

// object has these fields and no others. The name of one that may be absent ends in "?".
func object(fields map[string]check) check {
	names := slices.Sorted(maps.Keys(fields)) // the same mistake gives the same message
	return func(path string, value any) error {
		got, ok := value.(map[string]any)
		if !ok {
			return wrong(path, "an object", value)
		}
		known := 0
		for _, name := range names {
			key, optional := strings.CutSuffix(name, "?")
			value, present := got[key]
			switch {
			case present:
				known++
				if err := fields[name](path+"."+key, value); err != nil {
					return err
				}
			case !optional:
				return fmt.Errorf("%s.%s is missing", path, key)
			}
		}
		if known == len(got) {
			return nil
		}
		for _, key := range slices.Sorted(maps.Keys(got)) {
			if !slices.Contains(names, key) && !slices.Contains(names, key+"?") {
				return fmt.Errorf("%s.%s is not a field of the contract", path, key)
			}
		}
		return nil
	}
}

// list has elements that all pass one check.
func list(element check) check {
	return func(path string, value any) error {
		got, ok := value.([]any)
		if !ok {
			return wrong(path, "an array", value)
		}
		for i, value := range got {
			if err := element(fmt.Sprintf("%s[%d]", path, i), value); err != nil {
				return err
			}
		}
		return nil
	}
}

// dictionary has any keys, and values that all pass one check.
func dictionary(element check) check {
	return func(path string, value any) error {
		got, ok := value.(map[string]any)
		if !ok {
			return wrong(path, "an object", value)
		}
		for _, key := range slices.Sorted(maps.Keys(got)) {
			if err := element(fmt.Sprintf("%s[%q]", path, key), got[key]); err != nil {
				return err
			}
		}
		return nil
	}
}

// nullable passes null as well.
func nullable(other check) check {
	return func(path string, value any) error {
		if value == nil {
			return nil
		}
		return other(path, value)
	}
}

// oneOf is one of some strings.
func oneOf(values ...string) check {
	return func(path string, value any) error {
		if got, ok := value.(string); !ok || !slices.Contains(values, got) {
			return wrong(path, "one of "+strings.Join(values, ", "), value)
		}
		return nil
	}
}

// anyText is a string that may be empty, text one that may not.
func anyText(path string, value any) error {
	if _, ok := value.(string); !ok {
		return wrong(path, "a string", value)
	}
	return nil
}

func text(path string, value any) error {
	if got, ok := value.(string); !ok || got == "" {
		return wrong(path, "a string that is not empty", value)
	}
	return nil
}

// count is an integer from 0 on.
func count(path string, value any) error {
	if number, ok := value.(json.Number); ok {
		if got, err := number.Int64(); err == nil && got >= 0 {
			return nil
		}
	}
	return wrong(path, "an integer from 0 on", value)
}

// positive is an integer from 1 on.
func positive(path string, value any) error {
	if number, ok := value.(json.Number); ok {
		if got, err := number.Int64(); err == nil && got > 0 {
			return nil
		}
	}
	return wrong(path, "an integer from 1 on", value)
}

// instantForm is RFC 3339, of which time.Parse takes more than there is.
var instantForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)

// instant is a time of RFC 3339.
func instant(path string, value any) error {
	if got, ok := value.(string); ok && instantForm.MatchString(got) {
		if _, err := time.Parse(time.RFC3339, got); err == nil {
			return nil
		}
	}
	return wrong(path, "a time as of RFC 3339", value)
}

func wrong(path, want string, got any) error {
	shown, err := json.Marshal(got)
	if err != nil {
		return fmt.Errorf("%s is not %s", path, want)
	}
	if len(shown) > 80 {
		shown = append(bytes.ToValidUTF8(shown[:80], nil), "..."...)
	}
	return fmt.Errorf("%s is not %s: %s", path, want, shown)
}
