#!/usr/bin/env bash
# Builds etcd and kube-apiserver from their modules, at the versions of go.mod, and
# helm, at the version with which charts/test renders, into E2E_HOME/kube (default:
# .e2e/kube at the root, which git ignores). The first time it takes some minutes and
# 2 GB of memory; then it is skipped while this file and
# go.mod and go.sum of both stay as they are.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${E2E_HOME:-$(cd "$here/../.." && pwd)/.e2e}/kube
mkdir -p "$home"
exec 9>"$home.lock"
flock 9

chart=$here/../../charts/test
pins=$(cat "$here/install.sh" "$here/go.mod" "$here/go.sum" "$chart/go.mod" "$chart/go.sum" | sha256sum | cut -d' ' -f1)
[ -f "$home/.pins" ] && [ "$(cat "$home/.pins")" = "$pins" ] && exit 0
cd "$here"
# Charts say which versions of Kubernetes they are for, and helm asks the server.
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
build() { # binary, package; -p 1 keeps memory low
  CGO_ENABLED=0 go build -p 1 -trimpath -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" -o "$home/$1" "$2"
}
build etcd go.etcd.io/etcd/server/v3
build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
cd "$chart"
build helm helm.sh/helm/v3/cmd/helm
echo "$pins" >"$home/.pins"
