"""One plane per file of tests; a client finds it as it finds any cluster: by its kubeconfig."""

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.e2e.doors import Person


@pytest.fixture(scope="module")
def person():
    """Somebody whose plane runs."""
    home = Path(tempfile.mkdtemp(prefix="aboard-clients-"))  # short: unix sockets have short paths
    someone = Person(home)
    started = someone.aboard("up", "--port=0")
    assert started.code == 0, started.err
    yield someone
    someone.aboard("down")
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def kubeconfig(person):
    return str(person.home / "kubeconfig")
