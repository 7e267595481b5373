package main

import (
	"bytes"
	"encoding/base64"
	"os"
	"text/template"
)

// Everything is inline, so that the file can be copied or mounted elsewhere.
var kubeconfigTemplate = template.Must(template.New("kubeconfig").Parse(`apiVersion: v1
kind: Config
clusters:
- name: {{.Name}}
  cluster:
    server: {{.Server}}
    certificate-authority-data: {{.CA}}
users:
- name: {{.User}}
  user:
    client-certificate-data: {{.Cert}}
    client-key-data: {{.Key}}
contexts:
- name: {{.Name}}
  context:
    cluster: {{.Name}}
    user: {{.User}}
current-context: {{.Name}}
`))

// kubeconfigData are the values of one kubeconfig; the last three are base64.
type kubeconfigData struct{ Name, Server, User, CA, Cert, Key string }

func renderKubeconfig(d kubeconfigData) ([]byte, error) {
	var out bytes.Buffer
	err := kubeconfigTemplate.Execute(&out, d)
	return out.Bytes(), err
}

// writeKubeconfigs writes one file per identity; the administrator's is the one
// that "devcluster kubeconfig" points to.
func (c *instance) writeKubeconfigs() error {
	for _, id := range c.identities() {
		d := kubeconfigData{Name: "devcluster-" + c.name, Server: c.apiserverURL(), User: id.user}
		for _, part := range []struct {
			to   *string
			file string
		}{
			{&d.CA, "ca.crt"},
			{&d.Cert, id.file + ".crt"},
			{&d.Key, id.file + ".key"},
		} {
			content, err := os.ReadFile(c.path("pki", part.file))
			if err != nil {
				return err
			}
			*part.to = base64.StdEncoding.EncodeToString(content)
		}
		content, err := renderKubeconfig(d)
		if err != nil {
			return err
		}
		path := c.path("pki", id.file+".kubeconfig")
		if id.file == "admin" {
			path = c.kubeconfig()
		}
		if err := writeFile(path, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
