# Six daily verbs: run test check golden bench conformance. The long ones: test-slow fuzz chaos test-real.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= ../shared/conformance
SUITE ?=
k ?=

.PHONY: run test test-slow test-real check golden bench conformance fuzz chaos clean

# Train the first job on this machine: the plane starts, two nodes train together, everything is put away.
run: $(VENV)/.installed
	@$(BIN)/aboard run hello

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not real" $(if $(k),-k "$(k)")

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "slow and not real" $(if $(k),-k "$(k)")

# Against etcd and kube-apiserver themselves: KUBE_BIN names a folder that has them, else Go builds them (once).
test-real: $(VENV)/.dev
	@test -n "$(KUBE_BIN)" || ! command -v go >/dev/null || $(BIN)/python -m tools.real_cluster build
	@! command -v go >/dev/null || $(BIN)/python -m tools.real_operators build
	$(BIN)/python -m pytest -m real -rs tests/real $(if $(k),-k "$(k)")

check: $(VENV)/.dev
	$(BIN)/ruff format --check src tests bench tools examples
	$(BIN)/ruff check src tests bench tools examples
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_house.py

golden: $(VENV)/.dev
	GOLDEN=write $(BIN)/python -m pytest -q tests -k golden

bench: $(VENV)/.dev
	$(BIN)/python -m bench.run

conformance: $(VENV)/.dev
	$(BIN)/python -m tests.conformance.run --data "$(DATA)" $(if $(SUITE),--suite $(SUITE))

# Requests with something wrong in them: none may be answered with a failure of ours.
fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.cluster.fuzz $(or $(N),100000)
	$(BIN)/python -m tests.scheduling.fuzz $(or $(N),100000)

# kill -9 at random moments under load: nothing acknowledged may be lost.
chaos: $(VENV)/.dev
	$(BIN)/python -m tests.cluster.chaos $(or $(N),1000)

$(VENV)/.installed: pyproject.toml
	@echo "setting up $(VENV) (once)" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
