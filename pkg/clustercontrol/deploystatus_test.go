// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

const oneItem = `{"namespace":"bank","workspace":"web.v2","phase":"restart_required","binary_hash":"sha256:ab12","artifact_id":"a-1","version":"1.4.2"}`

func TestDecodeDeployStatus(t *testing.T) {
	for name, row := range map[string]struct {
		body    string
		after   int64
		cursor  int64
		items   int
		invalid int
		err     string
	}{
		"nothing new":             {body: `{"cursor":7,"items":[]}`, after: 7, cursor: 7},
		"no items":                {body: `{"cursor":7}`, after: 7, cursor: 7},
		"null items":              {body: `{"cursor":7,"items":null}`, after: 7, cursor: 7},
		"one":                     {body: `{"cursor":8,"items":[` + oneItem + `]}`, after: 7, cursor: 8, items: 1},
		"fields of a newer one":   {body: `{"cursor":8,"page":{"of":3},"items":[` + strings.Replace(oneItem, "{", `{"who":[1],`, 1) + `]}`, cursor: 8, items: 1},
		"phase of a newer one":    {body: `{"cursor":8,"items":[` + strings.Replace(oneItem, "restart_required", "deployed", 1) + `,` + oneItem + `]}`, cursor: 8, items: 1},
		"largest cursor":          {body: `{"cursor":9223372036854775807,"items":[]}`, cursor: 9223372036854775807},
		"wrong items among right": {body: `{"cursor":8,"items":[1,null,"x",{},[],{"namespace":5},` + oneItem + `,{"phase":"restart_required"}]}`, cursor: 8, items: 1, invalid: 5},
		"hash with a line break":  {body: `{"cursor":8,"items":[` + strings.Replace(oneItem, "sha256:ab12", `a\nb`, 1) + `]}`, cursor: 8, invalid: 1},
		"no hash":                 {body: `{"cursor":8,"items":[` + strings.Replace(oneItem, "sha256:ab12", ``, 1) + `]}`, cursor: 8, invalid: 1},
		"long hash":               {body: `{"cursor":8,"items":[` + strings.Replace(oneItem, "sha256:ab12", strings.Repeat("a", 256), 1) + `]}`, cursor: 8, invalid: 1},
		"path for a namespace":    {body: `{"cursor":8,"items":[` + strings.Replace(oneItem, "bank", `../kube-system`, 1) + `]}`, cursor: 8, invalid: 1},
		"control in a version":    {body: `{"cursor":8,"items":[` + strings.Replace(oneItem, "1.4.2", `\u001b[2J`, 1) + `]}`, cursor: 8, invalid: 1},
		"no cursor":               {body: `{"items":[]}`, err: "no cursor"},
		"null cursor":             {body: `{"cursor":null,"items":[]}`, err: "no cursor"},
		"null":                    {body: `null`, err: "no cursor"},
		"text cursor":             {body: `{"cursor":"8","items":[]}`, err: `field "cursor" of another type`},
		"float cursor":            {body: `{"cursor":8.5,"items":[]}`, err: `field "cursor" of another type`},
		"object cursor":           {body: `{"cursor":{"a":1},"items":[]}`, err: `field "cursor" of another type`},
		"huge cursor":             {body: `{"cursor":9223372036854775808,"items":[]}`, err: `field "cursor" of another type`},
		"cursor that went back":   {body: `{"cursor":6,"items":[]}`, after: 7, err: "went back from 7 to 6"},
		"items are an object":     {body: `{"cursor":8,"items":{"a":1}}`, err: `of another type`},
		"a list":                  {body: `[]`, err: "of another type"},
		"HTML":                    {body: `<html>password=hunter2</html>`, err: "not JSON at byte 1"},
		"empty":                   {body: ``, err: "cut off"},
		"cut":                     {body: `{"cursor":8,"items":[` + oneItem, err: "cut off"},
		"two answers":             {body: `{"cursor":8,"items":[]}{"cursor":9}`, err: "more than one"},
		"deep":                    {body: `{"cursor":8,"items":[` + strings.Repeat("[", 100000) + `]}`, err: "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			batch, invalid, err := decodeDeployStatus([]byte(row.body), row.after)
			if row.err != "" {
				if err == nil || !strings.Contains(err.Error(), row.err) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("got %v, want %q", err, row.err)
				}
				return
			}
			if err != nil || batch.Cursor != row.cursor || len(batch.Items) != row.items || invalid != row.invalid {
				t.Errorf("got %+v, %d invalid, %v", batch, invalid, err)
			}
		})
	}
}

func TestThousandsOfItemsKeepTheirOrder(t *testing.T) {
	items := make([]string, 5000)
	for i := range items {
		items[i] = strings.Replace(oneItem, "ab12", strconv.Itoa(i), 1)
	}
	batch, invalid, err := decodeDeployStatus([]byte(`{"items":[`+strings.Join(items, ",")+`],"cursor":5000}`), 0)
	if err != nil || invalid != 0 || len(batch.Items) != len(items) {
		t.Fatalf("%d items, %d invalid, %v", len(batch.Items), invalid, err)
	}
	for i, item := range batch.Items {
		if item.BinaryHash != fmt.Sprint("sha256:", i) {
			t.Fatalf("item %d is %s", i, item.BinaryHash)
		}
	}
}

func TestAMillionEmptyItemsAreNotKept(t *testing.T) {
	body := []byte(`{"cursor":1,"items":[0` + strings.Repeat(",0", maxDeployStatusBytes/2-20) + `]}`)
	if batch, invalid, err := decodeDeployStatus(body, 0); err != nil || cap(batch.Items) > 0 || invalid < 500_000 {
		t.Fatalf("%d items, %d invalid, %v", cap(batch.Items), invalid, err)
	}
}

func FuzzDecodeDeployStatus(f *testing.F) {
	for _, body := range []string{
		`{"cursor":8,"items":[` + oneItem + `]}`, `{"cursor":"8"}`, `{"cursor":1e3,"items":[[[]]]}`, `{"items":[null],"cursor":0,"items":[` + oneItem + `]}`, `{"cursor":-1}`,
	} {
		f.Add([]byte(body), int64(3))
	}
	f.Fuzz(func(t *testing.T, body []byte, after int64) {
		after = max(after, 0)
		batch, _, err := decodeDeployStatus(body, after)
		if err != nil {
			if len(err.Error()) > 200 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if batch.Cursor < after {
			t.Errorf("the cursor went from %d to %d", after, batch.Cursor)
		}
		for _, item := range batch.Items {
			if item.Namespace == "" || item.Workspace == "" || item.BinaryHash == "" || item.Phase != PhaseRestartRequired || strings.ContainsAny(item.BinaryHash+item.Version, "\n\x1b") {
				t.Errorf("took %+v", item)
			}
		}
		again, err := json.Marshal(map[string]any{"cursor": batch.Cursor, "items": batch.Items})
		if err != nil {
			t.Fatal(err)
		}
		same, invalid, err := decodeDeployStatus(again, after)
		if err != nil || invalid != 0 || len(same.Items) != len(batch.Items) {
			t.Errorf("what was taken is not what is taken again: %v", err)
		}
	})
}
