# `make help` is the index. Every target sets up what it needs by itself on a fresh Linux machine with
# Python 3.11+, Go 1.26 and apt.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PY     := $(BIN)/python
STAMP  := $(VENV)/.stamp

.PHONY: help
help:
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z_-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '\nVariables\n  %-18s %s\n  %-18s %s\n  %-18s %s\n' 'KEEP=1' 'demo: leave everything running' \
	  'QUICK=1, FULL=1' 'benches: the short form, everything' 'PYTHON=python3.12' 'interpreter for the virtual environment'

##@ The two commands
.PHONY: demo
demo: setup ## The main job on a real Kubernetes: apply, serve, scale, lose an engine, roll out, delete
	@$(PY) -m sandbox.demo $(if $(KEEP),--keep)

.PHONY: demo-scale
demo-scale: setup ## Only this part of the demo: a burst of requests, and replicas that follow it
	@$(PY) -m sandbox.demo --only scale

.PHONY: test
test: lint verify test-unit test-cluster ## Every test: lint, generated files, units, simulations, real HAProxy, real cluster

##@ Development
.PHONY: setup
setup: $(STAMP) ## Make the virtual environment (.venv) from requirements.lock

$(STAMP): requirements.lock pyproject.toml tools/setup.sh
	@PYTHON=$(PYTHON) tools/setup.sh $(VENV)
	@touch $(STAMP)

.PHONY: prepare
prepare: setup ## Install HAProxy and the like, build Kubernetes' programs (ten minutes, once)
	@tools/sandbox prepare

.PHONY: test-unit
test-unit: prepare ## Tests that need no cluster: units, simulations, contracts, the agent with a real HAProxy
	@# Three at a time on any machine: many of them wait, for timers and for processes.
	@$(PY) -m pytest -n 3 tests/unit tests/contract tests/sim
	@# These measure seconds, so nothing that computes runs beside them.
	@$(PY) -m pytest -n 3 tests/gateway

.PHONY: test-cluster
test-cluster: prepare ## Tests on the sandbox: a real API server, real pods, the operator from its chart
	@# They mostly wait: two sandboxes side by side, and each file in one of them, since its tests share an operator.
	@$(PY) -m pytest -n 2 --dist loadfile tests/sandbox tests/cluster

.PHONY: lint
lint: setup ## ruff, mypy --strict, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

.PHONY: format
format: setup ## Format the code
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

.PHONY: generate
generate: setup ## Regenerate CRD, reference pages and chart copies
	@$(PY) tools/gen_crd.py
	@$(PY) tools/gen_reference.py
	@$(PY) tools/gen_plugin_docs.py
	@$(PY) tools/gen_gitops.py
	@cp crds/inferenceclusters.yaml charts/inference-operator/files/inferenceclusters.yaml

.PHONY: verify
verify: setup ## Fail if a generated file differs from its source
	@$(PY) tools/gen_crd.py --check
	@$(PY) tools/gen_reference.py --check
	@$(PY) tools/gen_plugin_docs.py --check
	@$(PY) tools/gen_gitops.py --check
	@diff -u crds/inferenceclusters.yaml charts/inference-operator/files/inferenceclusters.yaml

.PHONY: golden
golden: setup ## Rewrite the golden files of the tests from today's output (review the diff)
	@UPDATE_GOLDENS=1 $(PY) -m pytest -q tests/unit tests/sim

.PHONY: lock
lock: ## Rewrite both lock files from pyproject.toml (hashes, no index addresses)
	@$(PYTHON) -m venv build/lock && build/lock/bin/pip install -q uv==0.13.9
	@build/lock/bin/uv pip compile --universal --generate-hashes --no-emit-index-url --group dev pyproject.toml -o requirements.lock
	@build/lock/bin/uv pip compile --universal --generate-hashes --no-emit-index-url -c requirements.lock pyproject.toml -o operator/requirements.lock

##@ Sandbox
.PHONY: sandbox-up
sandbox-up: setup ## Start a real Kubernetes with GPU nodes in the background
	@$(PY) -m sandbox up --detach

.PHONY: sandbox-down
sandbox-down: setup ## Stop it, with every process that it started
	@$(PY) -m sandbox down

##@ Measurements
.PHONY: bench-core
bench-core: setup ## Figures of the core: start, failover, drain, zero writes (build/bench/core.json)
	@$(PY) -m tests.bench.core $(if $(QUICK),--quick) $(if $(FULL),--full)

.PHONY: bench-shape
bench-shape: setup ## Figures of autoscaling (build/bench/shape.json)
	@$(PY) -m tests.bench.shape $(if $(QUICK),--quick) $(if $(FULL),--full)

.PHONY: benchmarks
benchmarks: setup ## Write docs/benchmarks.md from build/bench/*.json
	@$(PY) -m tests.bench.report

.PHONY: check-fresh
check-fresh: ## make demo and make test in a fresh clone with empty HOME and caches
	@tools/check_fresh.sh

.PHONY: clean
clean: ## Remove the virtual environment and build output
	@rm -rf $(VENV) build dist
