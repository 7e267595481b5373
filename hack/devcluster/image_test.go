package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"testing"
)

func TestImageArchive(t *testing.T) {
	archive, err := imageArchive("example.com/app:1", "app", []byte("binary"), "DELAY=1s", "MODE=slow")
	if err != nil {
		t.Fatal(err)
	}
	files := untar(t, archive)

	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		t.Fatalf("manifest %s: %v", files["manifest.json"], err)
	}
	if want := []string{"example.com/app:1"}; !reflect.DeepEqual(manifest[0].RepoTags, want) {
		t.Errorf("tags %v, want %v", manifest[0].RepoTags, want)
	}
	var config struct {
		Config struct{ Entrypoint, Env []string }
	}
	if err := json.Unmarshal(files[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	if want := []string{"/app"}; !reflect.DeepEqual(config.Config.Entrypoint, want) {
		t.Errorf("entry point %v, want %v", config.Config.Entrypoint, want)
	}
	if want := []string{"DELAY=1s", "MODE=slow"}; !reflect.DeepEqual(config.Config.Env, want) {
		t.Errorf("environment %v, want %v", config.Config.Env, want)
	}
	if layer := untar(t, files[manifest[0].Layers[0]]); string(layer["app"]) != "binary" {
		t.Errorf("the layer holds %v", layer)
	}

	again, err := imageArchive("example.com/app:1", "app", []byte("binary"), "DELAY=1s", "MODE=slow")
	if err != nil || !bytes.Equal(archive, again) {
		t.Errorf("the same binary gives another image, %v", err)
	}
}

func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPodNetworks(t *testing.T) {
	info := `{"ID": "1", "Spec": {"linux": {"namespaces": [
		{"type": "pid"}, {"type": "network", "path": "/var/run/netns/cni-1-2"}, {"type": "network", "path": "/proc/1/ns/net"}
	]}}}`
	if got, want := podNetworks([]byte(info)), []string{"cni-1-2"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
