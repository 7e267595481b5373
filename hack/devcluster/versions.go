package main

import (
	"os"
	"path/filepath"
)

// The versions of what is built. The nested modules pin the same ones, with
// checksums; TestVersionsMatchModules fails when the two differ.
const (
	kubernetesVersion    = "v1.37.2"
	etcdVersion          = "v3.7.0"
	kwokVersion          = "v0.8.0"
	metricsServerVersion = "v0.9.0"
)

// cacheRoot holds what all instances and all checkouts on a machine share.
func cacheRoot() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "formspec-devcluster"), nil
}

// binDir is where the built programs are kept, one directory per Kubernetes
// version so that checkouts at different versions do not rebuild in turns.
func binDir() (string, error) {
	if dir := os.Getenv("DEVCLUSTER_BIN"); dir != "" {
		return filepath.Abs(dir)
	}
	root, err := cacheRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, kubernetesVersion, "bin"), nil
}
