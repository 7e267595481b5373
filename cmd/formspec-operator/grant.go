// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

func newGrantCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "grant",
		Short: "Makes keys for datastore owners, signs ResourceClaims and verifies them, without any cluster",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGrantKeygenCommand(), newGrantSignCommand(), newGrantVerifyCommand())
	return cmd
}

// splitDocuments cuts a stream of YAML into its documents and the lines between them, in their order. Joined, they are the stream.
func splitDocuments(content []byte) []string {
	var parts []string
	var document strings.Builder
	flush := func() {
		if document.Len() > 0 {
			parts = append(parts, document.String())
			document.Reset()
		}
	}
	for line := range bytes.Lines(content) {
		if isSeparator(string(line)) {
			flush()
			parts = append(parts, string(line))
			continue
		}
		document.Write(line)
	}
	flush()
	return parts
}

func isSeparator(line string) bool { return strings.TrimRight(line, " \t\r\n") == "---" }

// head is what tells one object from another.
type head struct {
	APIVersion string                 `json:"apiVersion"`
	Kind       string                 `json:"kind"`
	Items      []runtime.RawExtension `json:"items"`
}

func (h head) is(kind string) bool {
	return h.APIVersion == v1alpha1.GroupVersion.String() && h.Kind == kind
}

// decodeHead reads a document that may hold anything, also nothing.
func decodeHead(document string) (head, error) {
	var h head
	if isSeparator(document) {
		return h, nil
	}
	if err := yaml.Unmarshal([]byte(document), &h); err != nil {
		return h, fmt.Errorf("decode the document that starts with %q: %w", firstLine(document), err)
	}
	return h, nil
}

// firstLine is the first line that says something.
func firstLine(document string) string {
	scanner := bufio.NewScanner(strings.NewReader(document))
	for scanner.Scan() {
		if line := strings.TrimSpace(scanner.Text()); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return ""
}
