# `make help` lists the targets. All of them use the environment in .venv, which `make install` builds.

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed
SITE  := $(VENV)/.installed-docs
# The Python that builds the environment: the first on PATH that runs and is new enough.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
            $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
# More arguments for pytest, the benchmarks or the mutants: make test ARGS='-k halo'.
ARGS ?=
# A Python with torch and Triton, for test-gpu; without it Debian's torch is unpacked into .venv-gpu.
GPU_PYTHON ?=
# The quick tests call inner loops for less time than compiling all of them takes; the others compile them first,
# because workers that start together would wait for one another.
TRANSLATED := $(BIN)/tilestitch translate --quiet
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist worksteal --durations=10 --durations-min=1

# The stamp is written last and holds the checkout's path. Without it an installation was interrupted; with another path
# the checkout was moved, and its scripts point elsewhere. Either way, and when its Python no longer runs, the
# environment is built anew rather than mended.
READY := $(shell $(BIN)/python -S -c '' 2>/dev/null && [ "$$(cat $(STAMP) 2>/dev/null)" = "$(CURDIR)" ] && echo yes)

.DEFAULT_GOAL := help
.PHONY: help install run quick test test-slow test-gpu docs bench mutants check lint types layers page clean FORCE

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1	/p' $(MAKEFILE_LIST) | while IFS='	' read -r name does; do \
	    printf '  %-10s %s\n' "$$name" "$$does"; done

install: $(STAMP)  ## build .venv (about a minute; at once when it is up to date)

run: install  ## compile ResNet-50 for the STCP920, as TVM fuses it and as GraphTurbo schedules it, and compare
	$(BIN)/tilestitch compare resnet50 --machine stcp920 --strategy tvm --strategy graphturbo --batch 64 --verify -o out/resnet50

quick: install  ## a few tests of every package, within a minute
	$(PYTEST) -m "quick and not slow" $(ARGS)

test: install  ## the tests, but for the slow ones
	$(TRANSLATED) && $(PYTEST) -m "not slow" $(ARGS)

test-slow: install $(SITE)  ## the slow tests, with more examples per property
	export HYPOTHESIS_PROFILE=slow; $(TRANSLATED) && $(PYTEST) -m slow $(ARGS)

test-gpu: install .venv-gpu/python  ## kernels of tilestitch build in Triton's interpreter (builds .venv-gpu, 1.3 GB)
	TILESTITCH_GPU_PYTHON='$(CURDIR)/.venv-gpu/python' $(PYTEST) -m "not slow" tests/gpu $(ARGS)

.venv-gpu/python: tests/gpu/environment.sh
	PIP_PYTHON=$(BIN)/python GPU_PYTHON='$(GPU_PYTHON)' sh $< .venv-gpu

docs: install $(SITE)  ## build the documentation into site/, to be opened from there
	$(BIN)/python -m docs.site.build

bench: install  ## time the compiler itself
	$(BIN)/python -m benchmarks $(ARGS)

mutants: install  ## break the code on purpose; the tests must notice
	$(BIN)/python -m tests.mutants $(ARGS)

check: lint types layers  ## style, types and the direction of imports

lint: install
	$(BIN)/ruff check -q
	$(BIN)/ruff format -q --check

types: install
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright

layers: install
	$(BIN)/python -m pytest -q tests/project/test_layers.py

page: install  ## build the page of the HTML reports (web/) into the package
	$(BIN)/python web/build.py

clean:  ## remove caches and out/, but not .venv
	rm -rf out site build dist .pytest_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

define CREATE
python='$(PYTHON)'; \
if ! "$${python:-false}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
    found="$$("$${python:-python3}" -c 'import platform; print(platform.python_version())' 2>/dev/null || echo 'none that runs')"; \
    echo "Tilestitch needs Python 3.11 or later; $${python:-PATH} gives $$found." >&2; \
    echo 'Install one, or name one: make install PYTHON=/path/to/python3.11' >&2; \
    exit 1; \
fi; \
rm -rf $(VENV); \
echo "building $(VENV) with $$("$$python" --version)"; \
"$$python" -m venv $(VENV)
endef

define FETCH
if command -v uv >/dev/null; then \
    uv pip install -q --python $(BIN)/python -e '.[$(EXTRAS)]'; \
else \
    $(BIN)/python -m pip install -q --disable-pip-version-check --no-compile -e '.[$(EXTRAS)]'; \
fi
endef

$(STAMP): EXTRAS := dev,html,dse,dask,serve
$(STAMP): pyproject.toml $(if $(READY),,FORCE)
	@$(if $(READY),rm -f $@,$(CREATE))
	@$(FETCH)
	@printf '%s\n' '$(CURDIR)' > $@

$(SITE): EXTRAS := docs
$(SITE): $(STAMP)
	@$(FETCH)
	@touch $@
