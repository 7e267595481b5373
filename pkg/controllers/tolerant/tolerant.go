// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tolerant decodes our own kinds object by object. One object that a looser schema let into the store, and that does not fit the
// types, would otherwise fail the decoding of every list that holds it, and stop the operator for all tenants.
package tolerant

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Serializer decodes an object that does not fit its type as one with metadata and the name of its class only, which carries what is wrong
// as the annotation v1alpha1.AnnotationUndecodable. The annotation exists in this process only.
func Serializer(strict runtime.NegotiatedSerializer) runtime.NegotiatedSerializer {
	return serializer{strict}
}

type serializer struct{ runtime.NegotiatedSerializer }

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (s serializer) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return decoder{s.NegotiatedSerializer.DecoderToVersion(d, gv)}
}

type decoder struct{ runtime.Decoder }

// Decode implements runtime.Decoder.
func (d decoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	object, kind, err := d.Decoder.Decode(data, defaults, into)
	if err == nil {
		return object, kind, nil
	}
	mended, ok := d.mend(data)
	if !ok {
		return object, kind, err
	}
	return d.Decoder.Decode(mended, defaults, into)
}

// mend returns the document with each of our objects that does not decode reduced to its metadata. ok is false for anything else.
func (d decoder) mend(data []byte) (mended []byte, ok bool) {
	var document map[string]json.RawMessage
	if json.Unmarshal(data, &document) != nil {
		return nil, false
	}
	var head struct{ APIVersion, Kind string }
	if json.Unmarshal(data, &head) != nil || head.APIVersion != v1alpha1.SchemeGroupVersion.String() {
		return nil, false
	}
	kind, isList := strings.CutSuffix(head.Kind, "List")
	if !isList {
		mended, err := d.reduce(document, kind)
		return mended, err == nil
	}
	var items []map[string]json.RawMessage
	if json.Unmarshal(document["items"], &items) != nil {
		return nil, false
	}
	good := make([]json.RawMessage, len(items))
	for i, item := range items {
		raw, err := d.reduce(item, kind)
		if err != nil {
			return nil, false
		}
		good[i] = raw
	}
	var err error
	if document["items"], err = json.Marshal(good); err != nil {
		return nil, false
	}
	mended, err = json.Marshal(document)
	return mended, err == nil
}

// reduce returns an item of a list as it is, if it decodes, else its metadata with what is wrong, and its status if that is not it.
func (d decoder) reduce(item map[string]json.RawMessage, kind string) (json.RawMessage, error) {
	item["apiVersion"], item["kind"] = quote(v1alpha1.SchemeGroupVersion.String()), quote(kind) // items of a list may lack them
	problem, raw, err := d.try(item)
	if problem == nil || err != nil {
		return raw, err
	}
	metadata := map[string]any{}
	if err := json.Unmarshal(item["metadata"], &metadata); err != nil {
		return nil, err
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[v1alpha1.AnnotationUndecodable] = problem.Error()
	metadata["annotations"] = annotations
	if item["metadata"], err = json.Marshal(metadata); err != nil {
		return nil, err
	}
	item["spec"] = reference(item["spec"])
	if problem, raw, err = d.try(item); problem == nil || err != nil {
		return raw, err
	}
	delete(item, "status")
	_, raw, err = d.try(item)
	return raw, err
}

// reference keeps of a spec what must not get lost: a class is in use also by a Workspace that cannot be read.
func reference(spec json.RawMessage) json.RawMessage {
	var fields struct {
		ClusterClass json.RawMessage `json:"clusterClass"`
	}
	var class string
	if json.Unmarshal(spec, &fields) != nil || json.Unmarshal(fields.ClusterClass, &class) != nil {
		return json.RawMessage("{}")
	}
	return json.RawMessage(`{"clusterClass":` + string(quote(class)) + "}")
}

// try decodes the item. problem is why it does not decode.
func (d decoder) try(item map[string]json.RawMessage) (problem error, raw json.RawMessage, err error) {
	if raw, err = json.Marshal(item); err != nil {
		return nil, nil, err
	}
	_, _, problem = d.Decoder.Decode(raw, nil, nil)
	return problem, raw, nil
}

func quote(s string) json.RawMessage {
	raw, _ := json.Marshal(s) //nolint:errchkjson // a string always encodes
	return raw
}
