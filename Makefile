# The targets that CI runs are the ones a developer runs.
SHELL := /bin/bash
GO    ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

.PHONY: help build test check vet lint race modules e2e e2e-install e2e-matrix e2e-kube bench bench-quick bench-screen hostile fuzz mutate demo update clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t18

build: ## build bin/memproxy, reproducibly
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/memproxy ./cmd/memproxy

test: ## the quick tests; need nothing but Go
	$(GO) test ./...

check: vet lint race modules ## what must be green before a commit lands

vet:
	$(GO) vet ./... && $(GO) vet -tags e2e,e2ekube ./e2e/...
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }

lint:
	$(GO) tool staticcheck ./...
	$(GO) tool staticcheck -tags e2e,e2ekube ./e2e/...

race: # the matrix plays a tenth of what go test plays of it
	MATRIX_SHARE=1000 $(GO) test -race -timeout 40m ./...

modules: ## the nested modules, each with its own dependencies
	cd telemetry/audit/interop && $(GO) vet ./... && $(GO) test ./...
	cd envoy/xds/fleetpb/gen && $(GO) vet ./...
	cd charts/test && $(GO) vet ./... && $(GO) test ./...

e2e-install: ## install the real parts (Mem0 engine, SDKs, redis-server) under .e2e
	e2e/install.sh

e2e: e2e-install ## everything against the real parts
	$(GO) test -tags e2e -count=1 -timeout 60m ./e2e/... ./budgets/redisstore/...

e2e-matrix: e2e-install ## all of the matrix of routes, places and callers against the real servers: hours
	MATRIX_SHARE=1 $(GO) test -tags e2e -count=1 -timeout 12h -run '^TestMatrix' ./e2e

e2e-kube: ## the chart against a real API server, which is built first: minutes, and 2 GB
	e2e/kube/install.sh
	$(GO) test -tags e2e,e2ekube -count=1 -timeout 10m -run '^TestKube' ./e2e

bench: ## side by side with a bare reverse proxy and nginx; writes bench/out/report.md
	$(GO) run ./bench -report bench/out/report.md

bench-quick: ## the same, short, to see that it runs
	$(GO) run ./bench -quick

hostile: ## an ordinary client under attack by 2,000 connections of each kind; writes bench/out/hostile.md; 15 minutes
	$(GO) run ./bench -hostile -report bench/out/hostile.md

SCREEN_DATA ?= ../shared/data/dev
bench-screen: ## how well and how fast screening judges; writes docs/screening.md
	$(GO) run ./bench/screen -data $(SCREEN_DATA) -report docs/screening.md

bench-latency: ## what a write waits for; fails over 5 ms of validation or 2 ms of audit
	$(GO) run ./bench/screen -latency

FUZZTIME ?= 20s
fuzz: ## every fuzz target for FUZZTIME each
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg 2>/dev/null | grep '^Fuzz'); do \
	    echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; done

MUTATE ?= -share day/12
mutate: ## small faults, each to be noticed by the tests of its requirement; MUTATE='' tries all: hours
	$(GO) run ./internal/mutate $(MUTATE)

demo: ## the demo
	$(GO) run ./cmd/memproxy demo

update: ## write generated files anew: JSON Schema, dependency list
	$(GO) test ./config ./internal/repo -update

clean:
	rm -rf bin bench/out .e2e
