// Package kube names what an API server of Kubernetes is built from: etcd and
// kube-apiserver, at fixed versions. It is a module of its own, as these are
// large; install.sh builds them.
package kube
