package main

import (
	"strings"
	"testing"
)

func TestRenderMetrics(t *testing.T) {
	manifest, err := renderMetrics("node-7")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`nodeSelector: {kubernetes.io/hostname: "node-7"}`, "image: devcluster.local/metrics-server:" + metricsServerVersion + "\n"} {
		if !strings.Contains(string(manifest), want) {
			t.Errorf("%q is missing in:\n%s", want, manifest)
		}
	}
}
