package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
)

// Media types and annotations of the OCI image specification 1.1.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"

	refName = "org.opencontainers.image.ref.name"
)

// What the Dockerfile says of the image too; a test holds them together.
const (
	imageUser  = "65532:0"
	rootsPath  = "etc/ssl/certs/ca-certificates.crt"
	binaryPath = "memproxy"
	sbomPath   = "memproxy.cdx.json"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	Schema    int          `json:"schemaVersion"`
	MediaType string       `json:"mediaType"`
	Manifests []descriptor `json:"manifests"`
}

type manifest struct {
	Schema      int               `json:"schemaVersion"`
	MediaType   string            `json:"mediaType"`
	Config      descriptor        `json:"config"`
	Layers      []descriptor      `json:"layers"`
	Annotations map[string]string `json:"annotations"`
}

type imageConfig struct {
	Created      string    `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Config       runConfig `json:"config"`
	RootFS       rootFS    `json:"rootfs"`
	History      []history `json:"history"`
}

type runConfig struct {
	User       string            `json:"User"`
	Entrypoint []string          `json:"Entrypoint"`
	Labels     map[string]string `json:"Labels"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type history struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

// layout collects the blobs of an OCI image layout.
type layout struct {
	files map[string][]byte
}

// blob keeps b under its digest.
func (l *layout) blob(mediaType string, b []byte) descriptor {
	sum := sha256.Sum256(b)
	name := hex.EncodeToString(sum[:])
	l.files["blobs/sha256/"+name] = b
	return descriptor{MediaType: mediaType, Digest: "sha256:" + name, Size: int64(len(b))}
}

func (l *layout) json(mediaType string, v any) (descriptor, error) {
	b, err := json.Marshal(v)
	return l.blob(mediaType, b), err
}

// imageBinary is what an image of one architecture holds.
type imageBinary struct {
	Arch         string
	Binary, SBOM []byte
}

// image is an image layout as entries of an archive: one index of all
// architectures, under the name that the chart asks for.
func image(version string, binaries []imageBinary, roots []byte, at time.Time) ([]entry, error) {
	l := &layout{files: map[string][]byte{}}
	all := index{Schema: 2, MediaType: typeIndex}
	for _, b := range binaries {
		d, err := l.manifest(version, b, roots, at)
		if err != nil {
			return nil, err
		}
		d.Platform = &platform{Architecture: b.Arch, OS: "linux"}
		all.Manifests = append(all.Manifests, d)
	}
	d, err := l.json(typeIndex, all)
	if err != nil {
		return nil, err
	}
	d.Annotations = map[string]string{refName: imageTag(version)}
	top, err := json.Marshal(index{Schema: 2, MediaType: typeIndex, Manifests: []descriptor{d}})
	if err != nil {
		return nil, err
	}
	l.files["index.json"] = top
	l.files["oci-layout"] = []byte(`{"imageLayoutVersion":"1.0.0"}`)
	var out []entry
	for name, b := range l.files { // tarball sorts
		out = append(out, entry{name, 0o644, b})
	}
	return out, nil
}

func (l *layout) manifest(version string, b imageBinary, roots []byte, at time.Time) (descriptor, error) {
	content, err := tarball([]entry{{rootsPath, 0o644, roots}, {binaryPath, 0o755, b.Binary}, {sbomPath, 0o644, b.SBOM}}, at)
	if err != nil {
		return descriptor{}, err
	}
	diff := sha256.Sum256(content)
	compressed, err := zipped(content)
	if err != nil {
		return descriptor{}, err
	}
	layer := l.blob(typeLayer, compressed)
	created := at.UTC().Format(time.RFC3339)
	config, err := l.json(typeConfig, imageConfig{
		Created: created, Architecture: b.Arch, OS: "linux",
		Config:  runConfig{User: imageUser, Entrypoint: []string{"/" + binaryPath}, Labels: labels(version)},
		RootFS:  rootFS{Type: "layers", DiffIDs: []string{"sha256:" + hex.EncodeToString(diff[:])}},
		History: []history{{created, "go run ./internal/release"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	return l.json(typeManifest, manifest{
		Schema: 2, MediaType: typeManifest, Config: config, Layers: []descriptor{layer}, Annotations: labels(version),
	})
}

func labels(version string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    "memproxy",
		"org.opencontainers.image.source":   repository,
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.version":  version,
	}
}

// imageTag is the version as the chart's appVersion has it.
func imageTag(version string) string { return strings.TrimPrefix(version, "v") }
