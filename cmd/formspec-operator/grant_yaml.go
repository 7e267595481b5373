// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strconv"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// yamlDocument is one document whose comments and order of fields survive a change.
type yamlDocument struct{ root yamlv3.Node }

// yamlObject is one object in a document.
type yamlObject struct{ node *yamlv3.Node }

func parseDocument(text string) (*yamlDocument, error) {
	d := &yamlDocument{}
	if err := yamlv3.Unmarshal([]byte(text), &d.root); err != nil {
		return nil, fmt.Errorf("decode the document that starts with %q: %w", firstLine(text), err)
	}
	return d, nil
}

// objects finds the objects of a kind of ours, also in lists.
func (d *yamlDocument) objects(kind string) []yamlObject {
	var found []yamlObject
	var visit func(*yamlv3.Node)
	visit = func(node *yamlv3.Node) {
		if node.Kind == yamlv3.AliasNode {
			return // what it stands for is visited where it is written
		}
		if scalar(node, "apiVersion") == v1alpha1.GroupVersion.String() && scalar(node, "kind") == kind {
			found = append(found, yamlObject{node})
			return
		}
		if items := child(node, "items"); items != nil && items.Kind == yamlv3.SequenceNode {
			for _, item := range items.Content {
				visit(item)
			}
		}
	}
	for _, node := range d.root.Content {
		visit(node)
	}
	return found
}

// text is the document as YAML.
func (d *yamlDocument) text() (string, error) { return encode(&d.root) }

func (o yamlObject) claim() (*v1alpha1.ResourceClaim, error) {
	text, err := encode(o.node)
	if err != nil {
		return nil, err
	}
	return decodeClaim(text)
}

// set sets a text field of metadata or spec.
func (o yamlObject) set(section, field, value string) error {
	return o.setScalar(section, field, yamlv3.Node{Kind: yamlv3.ScalarNode, Tag: "!!str", Style: yamlv3.DoubleQuotedStyle, Value: value})
}

func (o yamlObject) setNumber(section, field string, value int32) error {
	return o.setScalar(section, field, yamlv3.Node{Kind: yamlv3.ScalarNode, Tag: "!!int", Value: strconv.Itoa(int(value))})
}

func (o yamlObject) setScalar(section, field string, value yamlv3.Node) error {
	parent := child(o.node, section)
	if parent == nil || parent.Kind != yamlv3.MappingNode {
		return fmt.Errorf("%s is not written out as fields and cannot be changed; write it out", section)
	}
	if old := child(parent, field); old != nil {
		value.HeadComment, value.LineComment, value.FootComment = old.HeadComment, old.LineComment, old.FootComment
		*old = value
		return nil
	}
	parent.Content = append(parent.Content, &yamlv3.Node{Kind: yamlv3.ScalarNode, Tag: "!!str", Value: field}, &value)
	return nil
}

func encode(node *yamlv3.Node) (string, error) {
	var out bytes.Buffer
	encoder := yamlv3.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(node); err != nil {
		return "", fmt.Errorf("encode: %w", err)
	}
	return out.String(), encoder.Close()
}

// child is the value of a field of a mapping. Nil: there is none.
func child(node *yamlv3.Node, field string) *yamlv3.Node {
	if node.Kind != yamlv3.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == field {
			return node.Content[i+1]
		}
	}
	return nil
}

func scalar(node *yamlv3.Node, field string) string {
	if c := child(node, field); c != nil && c.Kind == yamlv3.ScalarNode {
		return c.Value
	}
	return ""
}
