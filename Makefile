# Every target sets up .venv by itself. `make` alone lists the targets.

# A pyenv shim can be on the PATH and still not run, so python3.11 is tried, not looked up.
PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)

# Passed through to the command behind the target: make test ARGS='-k translators'
ARGS ?=
DATASET ?= digits
PART ?= learning growth serving updates
# Test processes. Each gets one torch thread: two threads in each of two processes fight for the same two cores.
WORKERS ?= 2
MINUTES ?= 10
# Fuzzed cases of each kind; the tests try a few thousand in all.
CASES ?= 50000

# make image: another base, and more for docker or buildah: IMAGE_ARGS='--build-arg TORCH_INDEX=...'
IMAGE ?= zstci:latest
BASE ?=
IMAGE_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers
AUDIT := .venv-audit
# Folders that exist yet; mypy refuses names that do not.
SOURCES := $(wildcard zstci service migrations tests)

.DEFAULT_GOAL := help
.PHONY: help serve test check faults soak fuzz audit bench paper figures image image-check clean $(VENV)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: $(READY) ## Start the service (ARGS='--port 9000')
	$(BIN)/zstci serve $(ARGS)

test: $(READY) ## Run the tests, without benchmarks and paper runs (ARGS='-k name', WORKERS=0 for one process)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

check: $(READY) ## Run ruff, mypy and the import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports

faults: $(READY) ## Kill, stop, starve and poison the service, and write what came of it to tests/faults/results.md
	FAULTS=all OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests/faults $(ARGS)

bench: $(READY) $(PEERS)/.ready ## Measure learning, growth and serving beside its peers (45 minutes; PART=serving for one)
	for part in $(PART); do $(BIN)/python -m tests.benchmarks.$$part $(ARGS) || exit 1; done
	$(BIN)/python -m tests.benchmarks.readme_section

paper: $(READY) ## Reproduce the paper's tables (DATASET=digits|cifar100|cub, ARGS='--seed 1993')
	$(BIN)/zstci reproduce $(DATASET) $(ARGS)

figures: $(READY) ## Draw and photograph the README's pictures anew (the photograph needs Debian's chromium)
	$(BIN)/python -m tests.figures.data_paths
	$(BIN)/python -m tests.figures.screenshot
	$(BIN)/python -m tests.figures.demo

# buildah's own format has no health checks, and without --layers it installs torch again each time.
image: ## Build the container image with docker or buildah (IMAGE=name, BASE=image, IMAGE_ARGS='--build-arg ...')
	@if docker info >/dev/null 2>&1; then build='docker build'; \
	elif command -v buildah >/dev/null; then build='buildah build --layers --format docker'; \
	else echo "make image needs a running Docker engine, or buildah." >&2; exit 1; fi; \
	set -x; $$build -t $(IMAGE) $(if $(BASE),--build-arg BASE=$(BASE)) $(IMAGE_ARGS) .

image-check: $(READY) ## Run the image as the README and compose do; writes tests/container/results.md (IMAGE=name)
	$(BIN)/python -m tests.container.verify $(IMAGE)

soak: $(READY) ## Many clients, updates, roll-backs and swaps for MINUTES=10; writes tests/soak/results.md
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

fuzz: $(READY) ## Damaged archives and images, CASES=50000 of each kind, and schemathesis
	OMP_NUM_THREADS=1 FUZZ_CASES=$(CASES) $(BIN)/python -m pytest -s --timeout 0 tests/hostile $(ARGS)

audit: $(AUDIT)/.ready ## Known vulnerabilities of the pinned packages (pip-audit, which needs the internet)
	@$(AUDIT)/bin/python -m tests.hostile.audit

clean: ## Remove .venv, caches and build output
	rm -rf $(VENV) $(PEERS) $(AUDIT) build dist *.egg-info .hypothesis .schemathesis
	rm -rf .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV): $(READY)

$(READY): $(BIN)/python pyproject.toml constraints.txt
	@echo "Installing into $(VENV), this takes a minute or two ..."
	@rm -f $@
	$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@pwd -P > $@

# The peers of the serving benchmark stay apart: what they need must not change what is measured against them.
$(PEERS)/.ready: tests/benchmarks/peers/requirements.txt
	$(PYTHON) -m venv --clear $(PEERS)
	$(PEERS)/bin/pip install -qq --disable-pip-version-check -r $<
	@touch $@

# What audits is not part of what is audited.
$(AUDIT)/.ready:
	$(PYTHON) -m venv --clear $(AUDIT)
	$(AUDIT)/bin/pip install -qq --disable-pip-version-check pip-audit
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "zstci needs Python 3.11 or newer, but $(PYTHON) is: $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV)

# A .venv is bound to its folder (scripts hold its path), so one that was moved, half made or whose Python is gone is
# made again. The stamp holds the folder; reading it with .venv's own Python tests both at once.
ifneq ($(shell $(BIN)/python -c 'print(open("$(READY)").read())' 2>/dev/null),$(shell pwd -P))
.PHONY: $(BIN)/python
endif
