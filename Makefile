# What people and CI run. `make` alone explains.
.PHONY: help run test everywhere quick browser lint measure generate bench brokers chaos mutations mutate soak
.DEFAULT_GOAL := help

RUNNER := go run ./internal/testbroker/run
TOOL   := go tool -modfile=tools/go.mod

help: ## explain the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## the example actor on embedded brokers, with orders of its own
	@go build -o bin/orders ./examples/orders && exec bin/orders # go run would make an error of Ctrl-C

test: ## vet and all tests with the race detector, on real brokers it starts itself
	$(RUNNER)
	cd examples/bulk && go test -race ./... # a module of its own, for its driver

everywhere: ## make test with each test on every release of RabbitMQ, where make test runs most of them on one
	STEPWELL_TEST_RELEASES=all $(MAKE) test

quick: ## only the tests that need no broker
	$(RUNNER) -quick

browser: ## the console in a real Chromium, which apt-get installs where it is missing; not a part of make test
	@command -v chromium >/dev/null || { [ $$(id -u) = 0 ] || sudo=sudo; $$sudo apt-get update -qq && $$sudo apt-get install -y -qq --no-install-recommends chromium; }
	@test -n "$(AXE)" || echo "NOT RUN: axe-core; AXE=/…/axe.min.js names it, of npm pack axe-core"
	cd browser && go vet ./... && AXE="$(AXE)" go test -count=1 -timeout 10m ./...

chaos: ## kill everything under load, for CHAOS_TIME (30m) on top of each fault once; CHAOS_SEED repeats a run
	CI=true CHAOS_TIME=$${CHAOS_TIME:-30m} go test -count=1 -v -tags long -timeout 24h -run "TestNothingIsLost|TestAHopKilled|TestACluster|OfTheirCluster" ./chaos ./internal/testbroker ./internal/records

soak: ## steady work with failures and restarts for SOAK_TIME (30m): nothing is lost, and nothing grows
	CI=true SOAK_TIME=$${SOAK_TIME:-30m} go test -count=1 -v -tags long -timeout 24h -run TestASoak ./chaos

mutations: ## break the promise on purpose, in a dozen ways, and see that the chaos tests find each
	CI=true go test -count=1 -v -tags mutations -timeout 3h -run TestEveryMutation ./chaos

mutate: ## change PACKAGE=./deadset in one place after another: its quick tests should notice (FILES=walk.go, RUN=TestA and JOBS=1 narrow it; TESTS=./retry,./actor: those of others; ALL=true: slow ones, too)
	nice -n 19 go run ./internal/mutate -package "$(PACKAGE)" -files "$(FILES)" -run "$(RUN)" -tests "$(TESTS)" -all=$${ALL:-false} -jobs $${JOBS:-2}

lint: ## gofmt, golangci-lint, limits of size, govulncheck
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt -w $$unformatted"; exit 1; }
	$(TOOL) golangci-lint run
	go run ./internal/measure
	@tools/vulncheck

measure: ## count what makes code hard to read, and write it into CONTRIBUTING.md
	go run ./internal/measure -write

generate: ## files that are made from code, like docs/CONFIGURATION.md
	go generate ./...

bench: ## benchmarks beside the same work done by other means
	cd bench && go run .

brokers: ## install what `make test` needs, with sudo if need be
	$(RUNNER) -install
