package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// apiClient speaks to the API server as administrator. The handful of requests
// made here do not justify client-go, which takes minutes to compile.
type apiClient struct {
	server string
	http   *http.Client
}

func (c *instance) api() (*apiClient, error) {
	if c.client != nil {
		return c.client, nil
	}
	ca, err := os.ReadFile(c.path("pki", "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	cert, err := tls.LoadX509KeyPair(c.path("pki", "admin.crt"), c.path("pki", "admin.key"))
	if err != nil {
		return nil, err
	}
	c.client = &apiClient{
		server: c.apiserverURL(),
		http: &http.Client{
			Timeout: 10 * time.Second,
			Transport: &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}},
			},
		},
	}
	return c.client, nil
}

// apiError is an answer other than 2xx.
type apiError struct {
	code    int
	message string
}

func (e *apiError) Error() string { return fmt.Sprintf("%d: %s", e.code, e.message) }

// do sends in as JSON and decodes the answer into out; both may be nil.
func (a *apiClient) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		content, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(content)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.server+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		var status struct{ Message string }
		if json.Unmarshal(content, &status) != nil || status.Message == "" {
			status.Message = string(content)
		}
		return &apiError{code: resp.StatusCode, message: status.Message}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(content, out)
}

// getOK returns an error unless a health endpoint answers 200.
func getOK(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}
