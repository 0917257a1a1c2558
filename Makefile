# The targets that CI runs are the ones a developer runs.
SHELL := /bin/bash
GO    ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

.PHONY: help build release test check vet lint race modules e2e e2e-smoke e2e-install e2e-matrix e2e-kube bench bench-quick bench-screen bench-field bench-latency hostile floors slow count times search fuzz mutate demo docs update clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t18

build: ## build bin/memproxy, reproducibly
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -tags grpcnotrace -ldflags '$(LDFLAGS)' -o bin/memproxy ./cmd/memproxy

release: ## what users install, for four platforms, into dist/: archives, deb, rpm, image, bills of materials, provenance, checksums
	$(GO) run ./internal/release -version $(VERSION) $(if $(BUILDER),-builder $(BUILDER)) -out dist

test: ## the core: quick, deterministic, needs nothing but Go
	$(GO) test ./...

slow: ## the core and all that kills processes, waits for real clocks or plays everything there is
	$(GO) test -tags slow -timeout 30m ./...

count: ## how many tests there are in all rings together
	@grep -rhE '^func (Test|Fuzz)[A-Z0-9]' --include='*_test.go' --exclude-dir=.e2e . | wc -l

times: ## the tests of the core that take over two seconds alone, on a machine that does nothing else
	$(GO) test -count=1 -p 1 -parallel 1 -v ./... | grep -E '^(--- .*\(([2-9]|[0-9]{2,})\.[0-9]+s\)|ok|FAIL)'

check: vet lint race modules ## what must be green before a commit lands, in addition to the core

vet:
	$(GO) vet -tags e2e,e2ekube,slow ./...
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }

lint:
	$(GO) tool staticcheck -tags e2e,e2ekube,slow ./...

# The core; -short plays less of what is played one by one. SQLite, which is C
# translated into Go and has locks of its own, is compiled without the detector:
# with it a new ledger takes 450 ms to open, without it 31 ms.
race:
	$(GO) test -race -vet=off '-gcflags=modernc.org/...=-race=false -d=checkptr=0' -short -timeout 30m ./...

modules: ## the nested modules, each with its own dependencies
	cd telemetry/audit/interop && $(GO) vet ./... && $(GO) test ./...
	cd charts/test && $(GO) vet ./... && $(GO) test ./...

e2e-install: ## install the real parts (Mem0 engine, Letta, their SDKs, Envoy, redis-server) under .e2e
	e2e/install.sh

# How many tests against the real parts run in parallel: each starts servers of its
# own, up to 2 GB. With more than the machine has cores a server can be without one for
# the 5 s that memproxy gives a side request.
PARALLEL := 2
# One of each: unmodified SDKs of both backends, a held write and its approval, an
# agent's turn with a memory call, Envoy, Redis gone and back, a restart.
SMOKE := TestUnmodifiedClients|TestMilestone|TestHeldPassagesInLettaClients|TestLettaClients|TestLettaSelfEdits|TestEnvoyDoesWhatTheHTTPListenerDoes|TestRedisGoesAwayAndComesBack|TestTermDrains
e2e-smoke: e2e-install ## what CI runs against the real parts: 5 minutes
	$(GO) test -tags e2e -count=1 -parallel $(PARALLEL) -timeout 20m -run '^($(SMOKE))$$' ./e2e
	$(GO) test -tags e2e -count=1 ./budgets/redisstore

e2e: e2e-install ## everything against the real parts
	e2e/clients/install.sh
	$(GO) test -tags e2e -count=1 -parallel $(PARALLEL) -timeout 60m ./e2e/... ./budgets/redisstore/...

e2e-matrix: e2e-install ## all of the matrix of routes, places and callers against the real servers: hours
	MATRIX_SHARE=1 $(GO) test -tags e2e -count=1 -timeout 6h -run '^TestMatrix' ./e2e

e2e-kube: ## the chart against a real API server, which is built first: minutes, and 2 GB
	e2e/kube/install.sh
	$(GO) test -tags e2e,e2ekube -count=1 -timeout 10m -run '^TestKube' ./e2e

bench: ## side by side with a bare reverse proxy and nginx; writes bench/out/report.md
	$(GO) run ./bench -report bench/out/report.md

bench-quick: ## the same, short, to see that it runs
	$(GO) run ./bench -quick

hostile: ## an ordinary client under attack by 2,000 connections of each kind; writes bench/out/hostile.md; 15 minutes
	$(GO) run ./bench -hostile -report bench/out/hostile.md

# Directories of *.jsonl, separated by commas.
SCREEN_DATA ?= ../shared/data/dev,../shared/data/dev2
bench-screen: ## how well and how fast screening judges; writes docs/screening.md
	$(GO) run ./bench/screen -data $(SCREEN_DATA) -report docs/screening.md

bench-field: ## compare other published detectors with memproxy, on every corpus; writes docs/screening.md; 30 minutes
	bench/screen/field/install.sh
	$(GO) run ./bench/screen -data $(SCREEN_DATA) -field .field/bin/python
	$(GO) run ./bench/screen -data $(SCREEN_DATA) -report docs/screening.md

bench-latency: ## what a write waits for; fails over 5 ms of validation or 2 ms of audit
	$(GO) run ./bench/screen -latency

floors: bench-latency ## fails where screening finds less, or writes and reads are slower, than they may: 4 minutes
	$(GO) run ./bench/screen -floors -data $(SCREEN_DATA)
	$(GO) run ./bench -floors -rounds 3 -length 2s
	$(GO) run ./bench -reads -floors -rounds 3 -length 2s

FUZZTIME ?= 20s
fuzz: ## every fuzz target for FUZZTIME each
	.ci/fuzz $(FUZZTIME)

SEED ?= $(shell date +%j)
search: e2e-install ## rotating seeds, which are printed, on real servers and in random sequences: a search and no gate
	@echo "SEED=$(SEED)"
	MATRIX_SEED=$(SEED) EDITS_SEED=$(SEED) $(GO) test -tags e2e -count=1 -timeout 60m -v -run '^(TestMatrix|TestLettaSelfEditsAreRead)' ./e2e
	LAWS_SEED=$(SEED) LAWS_SEEDS=300 $(GO) test -tags slow -count=1 -timeout 60m -v -run '^TestLaws$$' ./app

MUTATE ?=
mutate: ## small faults, each to be noticed by the tests of its requirement: hours; MUTATE='-share 3/12' or '-only SYN-3' tries some
	$(GO) run ./internal/mutate $(MUTATE)

demo: ## the demo
	$(GO) run ./cmd/memproxy demo

docs: ## write the lists of tests in documents anew
	$(GO) test -tags slow ./internal/repo -run Requirements -update
	$(GO) test -tags slow ./gate -run StepsAreInTheDesign -update

update: ## write generated files anew: JSON Schemas, the review API's description, dependency list
	$(GO) test ./config ./internal/repo -update
	$(GO) test -tags slow ./review -run DescriptionIsOfTheRoutes -update
	cd charts/test && $(GO) test . -run TestConfigurationHasTheSidecarsSchema -update

clean:
	rm -rf bin dist bench/out .e2e
