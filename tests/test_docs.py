"""The documents say what is there: every command is described, and every file a page names exists."""

import re
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from allaboard.cli import COMMANDS
from allaboard.main.controllers import ADMISSION, CONTROLLERS
from allaboard.main.settings import GATES

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "allaboard"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FILE = re.compile(r"`([\w./-]+(?:\.py|\.yaml|\.md|/))`")
COMMAND = re.compile(r"`aboard ([a-z][\w-]*)")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def missing_files(text: str, page: Path) -> list[str]:
    """Back-quoted paths that stand nowhere: under the package, the root, or beside the page."""
    places = (PACKAGE, ROOT, page.parent)
    return [name for name in FILE.findall(text) if not any((place / name).exists() for place in places)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_only_what_exists(page):
    text = page.read_text()
    assert not missing_files(text, page)
    assert not [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert not [verb for verb in COMMAND.findall(text) if verb not in COMMANDS]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command):
    assert f"`aboard {command}" in (ROOT / "docs" / "reference" / "commands.md").read_text()


def test_a_page_that_names_a_gone_file_is_found():
    assert missing_files("see `kube/gone.py` and `kube/plan.py`", ROOT / "README.md") == ["kube/gone.py"]


REFERENCE = ROOT / "docs" / "reference"


def test_every_controller_hook_and_gate_is_documented():
    text = (REFERENCE / "settings.md").read_text()
    assert not [name for name in (*CONTROLLERS, *ADMISSION, *GATES) if f"`{name}`" not in text]


def test_every_metric_is_documented_and_no_page_names_one_that_is_gone():
    ours = [m for m in REGISTRY.collect() if not m.name.startswith(("python_", "process_"))]
    names = {f"{m.name}_total" if m.type == "counter" else m.name for m in ours}
    told = set(re.findall(r"^\| `(\w+)`", (REFERENCE / "metrics.md").read_text(), re.MULTILINE))
    assert told == names
