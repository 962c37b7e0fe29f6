"""A machine that forbids namespaces, as default containers do: pods are plain processes, and people are told."""

import shutil
import subprocess
import sys

import pytest

from tests.e2e.doors import Person

# Inside a user namespace of its own, which allows no others, and with every right given up.
FORBID = 'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all "$@"'
FORBIDDEN = ("unshare", "-U", "-r", "sh", "-c", FORBID, "sh")


def can_forbid():
    if not (shutil.which("unshare") and shutil.which("setpriv")):
        return False
    return subprocess.run([*FORBIDDEN, "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not can_forbid(), reason="namespaces cannot be forbidden here (needs unshare, setpriv)")


class Confined(Person):
    """Somebody on such a machine."""

    launcher = (*FORBIDDEN, sys.executable, "-m", "allaboard")


@pytest.fixture
def confined(newcomer):
    return Confined(newcomer.home)


def test_the_doctor_says_what_is_missing_and_how_to_get_it(confined):
    said = confined.aboard("doctor")
    assert said.code == 1
    assert "level      D" in said.out
    assert "nothing is isolated" in said.out
    assert "→ allow PID namespaces" in said.out


@pytest.mark.slow
def test_hello_trains_all_the_same(confined):
    done = confined.aboard("run", "hello")
    assert done.code == 0, done.out + done.err
    assert "all aboard" in done.out + done.err
