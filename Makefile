# The two commands: `make reproduce` and `make test`. Each sets up what it needs, once, in .venv.
PYTHON    ?= python3
VENV      ?= .venv
# Baselines to install: any of "pyg dgl"; `make reproduce BASELINES=` runs without.
BASELINES ?= pyg dgl
# One folder of records per state of the code, so that numbers of two states never mix.
RESULTS   ?= results/$(or $(shell git rev-parse --short HEAD 2>/dev/null),unversioned)$(if $(shell git status --porcelain 2>/dev/null),-dirty)

PY  := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
CORE_SOURCES := $(shell find csrc -name '*.cpp' -o -name '*.h' -o -name CMakeLists.txt)
CXX_FILES    := $(shell find csrc benchmarks -name '*.cpp' -o -name '*.h')

.PHONY: reproduce test test-baselines test-cpp smoke lint format setup baselines clean

reproduce: setup $(addprefix try-,$(BASELINES))
	@echo "== Main job on PubMed, then on a synthetic graph: every system trains, about 12 minutes"
	$(PY) -m benchmarks.epoch_breakdown --dataset pubmed --split random --results $(RESULTS)
	$(PY) -m benchmarks.epoch_breakdown --dataset synthetic:small --results $(RESULTS)
	$(PY) -m analysis $(RESULTS)

test: setup
	$(PY) -m pytest

# Here a missing baseline is a failure, not a skip.
test-baselines: setup baselines
	SALIENT_REQUIRE_BASELINES=1 $(PY) -m pytest tests/test_baselines.py tests/test_baseline_availability.py

# The C++ core alone, under sanitizers, with malformed graphs among its input.
test-cpp:
	@echo "== C++ tests under address, undefined-behaviour and thread sanitizers: 3 to 5 minutes"
	csrc/tests/run_sanitized.sh

# Every system, every stage and the report, in a minute.
smoke: setup
	rm -rf results/smoke
	$(PY) -m benchmarks.epoch_breakdown --dataset synthetic:tiny --seeds 0 --workers 0 \
	  --epochs 2 --batch-size 128 --results results/smoke
	$(PY) -m analysis results/smoke

lint: setup
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/clang-format --dry-run -Werror $(CXX_FILES)

format: setup
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	$(VENV)/bin/clang-format -i $(CXX_FILES)

setup: $(VENV)/.packages $(VENV)/.core

baselines: $(VENV)/.baseline-pyg $(VENV)/.baseline-dgl

$(VENV)/.packages: constraints.txt pyproject.toml
	@echo "== Python packages, torch among them: one to five minutes, once"
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q torch numpy
	$(PIP) install -q -e '.[bench,analysis,dev]'
	@touch $@

$(VENV)/.core: $(VENV)/.packages $(CORE_SOURCES)
	@echo "== The C++ core: under a minute"
	$(PIP) install -q --no-deps -e . -C cmake.define.SALIENT_WERROR=$(if $(CI),ON,OFF)
	@touch $@

# torch-scatter and torch-sparse come as source and are compiled against the installed torch.
$(VENV)/.baseline-pyg: $(VENV)/.packages
	@echo "== PyG's sampling kernels are compiled: 15 to 30 minutes on 2 cores, once (pip keeps them)"
	$(PIP) install -q setuptools wheel ninja
	$(PIP) install --no-build-isolation torch-scatter torch-sparse
	@touch $@

$(VENV)/.baseline-dgl: $(VENV)/.packages
	@echo "== DGL: under a minute"
	$(PIP) install -q --no-deps dgl
	@touch $@

# A baseline that cannot be installed gives rows "n/a"; the others run all the same.
try-%: setup
	@$(MAKE) --no-print-directory $(VENV)/.baseline-$* || \
	  echo "== baseline $* could not be installed: its rows will read n/a"

clean:
	rm -rf $(VENV) build
