package main

import (
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
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// object is a JSON object. It is encoded in the order of its names.
type object = map[string]any

// layout collects the blobs of an OCI image layout.
type layout struct {
	files map[string][]byte
}

// blob keeps b under its digest.
func (l *layout) blob(mediaType string, b []byte) descriptor {
	name := digest(b)
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
	var all []descriptor
	for _, b := range binaries {
		d, err := l.manifest(version, b, roots, at)
		if err != nil {
			return nil, err
		}
		d.Platform = map[string]string{"architecture": b.Arch, "os": "linux"}
		all = append(all, d)
	}
	d, err := l.json(typeIndex, index(all...))
	if err != nil {
		return nil, err
	}
	d.Annotations = map[string]string{refName: imageTag(version)}
	top, err := json.Marshal(index(d))
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

func index(of ...descriptor) object {
	return object{"schemaVersion": 2, "mediaType": typeIndex, "manifests": of}
}

func (l *layout) manifest(version string, b imageBinary, roots []byte, at time.Time) (descriptor, error) {
	content, err := tarball([]entry{{rootsPath, 0o644, roots}, {binaryPath, 0o755, b.Binary}, {sbomPath, 0o644, b.SBOM}}, at)
	if err != nil {
		return descriptor{}, err
	}
	layer := l.blob(typeLayer, zipped(content))
	created := at.UTC().Format(time.RFC3339)
	config, err := l.json(typeConfig, object{
		"created": created, "architecture": b.Arch, "os": "linux",
		"config":  object{"User": imageUser, "Entrypoint": []string{"/" + binaryPath}, "Labels": labels(version)},
		"rootfs":  object{"type": "layers", "diff_ids": []string{"sha256:" + digest(content)}},
		"history": []object{{"created": created, "created_by": "go run ./internal/release"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	return l.json(typeManifest, object{
		"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": []descriptor{layer}, "annotations": labels(version),
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
