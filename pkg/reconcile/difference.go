// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// Fingerprint is equal for apply configurations that ask for the same, whatever the preconditions of their writes.
func Fingerprint(config Config) string {
	content, err := json.Marshal(unstructured(config))
	if err != nil {
		return "" // generated types always encode
	}
	return string(content)
}

// Differences names the fields in which two apply configurations of a kind differ, as dotted paths, sorted.
func Differences(asked, got Config) []string {
	var paths []string
	walk("", unstructured(asked), unstructured(got), &paths)
	slices.Sort(paths)
	return paths
}

// unstructured is the configuration without the preconditions of its write.
func unstructured(config Config) map[string]any {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		return nil // generated types always convert
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "uid")
		delete(metadata, "resourceVersion")
	}
	return object
}

func walk(path string, a, b any, paths *[]string) {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			for key := range a {
				walk(join(path, key), a[key], b[key], paths)
			}
			for key := range b {
				if _, both := a[key]; !both {
					*paths = append(*paths, join(path, key))
				}
			}
			return
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			for i := range a {
				walk(fmt.Sprintf("%s[%d]", path, i), a[i], b[i], paths)
			}
			return
		}
	}
	if !reflect.DeepEqual(a, b) {
		*paths = append(*paths, path)
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
