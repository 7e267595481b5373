package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"text/template"
	"time"
)

//go:embed metrics.yaml
var metricsManifest string

const metricsImage = "devcluster.local/metrics-server:" + metricsServerVersion

// addMetrics runs the metrics server on the real node, and waits until it has
// something to tell.
func (c *instance) addMetrics(ctx context.Context, timeout time.Duration, log *progress) error {
	node := c.Options.RealNode
	if node == nil || c.pid("kubelet") == 0 {
		return fmt.Errorf("instance %s has no real node that runs; add one with: devcluster node --name %s", c.name, c.name)
	}
	if err := buildPrograms(ctx, c.bin, []string{"metrics-server", "kubectl"}, log); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	total := log.timer()
	if err := c.importImage(ctx, metricsImage, filepath.Join(c.bin, "metrics-server")); err != nil {
		return err
	}
	manifest, err := renderMetrics(node.Name)
	if err != nil {
		return err
	}
	apply := exec.CommandContext(ctx, filepath.Join(c.bin, "kubectl"), "--kubeconfig", c.kubeconfig(), "apply", "--server-side", "-f", "-")
	apply.Stdin = bytes.NewReader(manifest)
	if out, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("apply the metrics server: %w\n%s", err, out)
	}
	if err := c.waitMetrics(ctx, node.Name); err != nil {
		return fmt.Errorf("%w; see kubectl logs -n kube-system deployment/metrics-server", err)
	}
	total("metrics of node %s are there", node.Name)
	return nil
}

func renderMetrics(node string) ([]byte, error) {
	t, err := template.New("metrics").Parse(metricsManifest)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, struct{ Node, Image string }{node, metricsImage})
	return out.Bytes(), err
}

// waitMetrics waits for the node's metrics, which take two looks of the server.
func (c *instance) waitMetrics(ctx context.Context, node string) error {
	api, err := c.api()
	if err != nil {
		return err
	}
	for {
		err := api.do(ctx, http.MethodGet, "/apis/metrics.k8s.io/v1beta1/nodes/"+node, nil, nil)
		if err == nil {
			return nil
		}
		if ctxErr := sleep(ctx, pollInterval); ctxErr != nil {
			return fmt.Errorf("there are no metrics of node %s: %w", node, errors.Join(err, ctxErr))
		}
	}
}
