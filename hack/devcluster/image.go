package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
)

// importImage wraps one static binary as a container image that runs it with the
// environment, and gives it to the real node's containerd. There is no registry
// to push to.
func (c *instance) importImage(ctx context.Context, name, binary string, env ...string) error {
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	archive, err := imageArchive(name, filepath.Base(binary), content, env...)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(c.data, ".image-*.tar")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(archive)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if _, err := c.ctr(ctx, "images", "import", file.Name()); err != nil {
		return fmt.Errorf("import image %s: %w", name, err)
	}
	return nil
}

// imageArchive returns an image in the form of "docker save": one layer with
// one executable, which is the entry point.
func imageArchive(name, executable string, content []byte, env ...string) ([]byte, error) {
	layer, err := tarball(tarFile{executable, 0o755, content})
	if err != nil {
		return nil, err
	}
	digest := func(b []byte) string {
		sum := sha256.Sum256(b)
		return hex.EncodeToString(sum[:])
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{path.Join("/", executable)}, "WorkingDir": "/", "Env": env},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	if err != nil {
		return nil, err
	}
	configFile, layerFile := digest(config)+".json", digest(layer)+".tar"
	manifest, err := json.Marshal([]map[string]any{{
		"Config": configFile, "RepoTags": []string{name}, "Layers": []string{layerFile},
	}})
	if err != nil {
		return nil, err
	}
	return tarball(
		tarFile{configFile, 0o644, config},
		tarFile{layerFile, 0o644, layer},
		tarFile{"manifest.json", 0o644, manifest},
	)
}

type tarFile struct {
	name    string
	mode    int64
	content []byte
}

// tarball leaves times out, so that equal content is an equal image.
func tarball(files ...tarFile) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
