"""The reference names every phase, plugin, setting, metric, scheme and shipped runtime."""

from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from allaboard.initializers.fetching import SOURCES
from allaboard.training import config, metrics
from allaboard.training.framework import PHASES, PLUGINS
from allaboard.training.runtimes import contracts

REFERENCE = Path(__file__).parent.parent.parent / "docs" / "reference"
TRAINING = (REFERENCE / "training.md").read_text()
RUNTIMES = (REFERENCE / "runtimes.md").read_text()
COUNTED = [metric for metric in REGISTRY.collect() if metric.name.startswith("aboard_trainjob") and metrics]
NAMES = [*PHASES, *(plugin.name for plugin in PLUGINS), *config.FIELDS, *config.GATES]
NAMES += [name + ("_total" if kind == "counter" else "") for name, kind in ((m.name, m.type) for m in COUNTED)]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_in_the_reference(name):
    assert f"`{name}" in TRAINING


@pytest.mark.parametrize("scheme", SOURCES)
def test_a_scheme_is_in_the_reference(scheme):
    assert f"`{scheme}://" in TRAINING


@pytest.mark.parametrize("name", contracts())
def test_a_runtimes_contract_is_in_the_reference(name):
    assert f"## {name}\n\n```text\n{contracts()[name]}\n```" in RUNTIMES
