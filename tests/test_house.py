"""The house rules, executable: who may import whom, what may touch the world, how large a thing may grow."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "allaboard"
FILES = sorted(PACKAGE.rglob("*.py"))

MAY_IMPORT = {
    "api": set(),
    "points": set(),
    "schema": {"api"},
    "merge": {"api", "schema"},
    "kube": {"api"},
    "cluster": {"api", "schema", "merge"},
    "training": {"api", "schema", "merge", "kube", "points"},
    "jobs": {"api", "kube"},
    "upkeep": {"api", "kube"},
    "scheduling": {"api", "kube", "points"},
    "node": {"api", "kube"},
    "sdk": {"api", "kube"},
    "cli": {"api", "kube", "sdk", "main"},
    "dashboard": {"api", "sdk"},
    "initializers": set(),
}
# Who touches the world, room by room: everything else decides.
EDGES = {
    "cluster": "asgi keeper server sqlite streams watch webhooks wires world",
    "jobs": "controller",
    "kube": "certificates clock controller hands http informer kubeconfig leader queue reach webhook",
    "node": "agent builder cgroups compiled containers environments families gateway images inits kubelet "
    "levels logs machine neighbours netlink portable porter ports post probing processes procfs provision records "
    "sandbox server streams switchboard syscalls tenants tunnel usage volumes zygote",
    "scheduling": "loop",
    "training": "controller progress",
}
DOORS = {"cli", "sdk", "dashboard", "initializers", "testing", "main"}
WORLDLY = {"asyncio", "os", "random", "socket", "subprocess", "time"}
# An exception is a line here with its reason.
LAZY = {
    "__init__.py": "the package's door loads by name on first use",
    "cli/__init__.py": "a command starts in 0.1 s",
    "node/families.py": "one of two twins, by what the system has",
}
FORBIDDEN = re.compile(r"^(utils?|common|helpers?|misc|base|core|manager|handlers?|impl|.*_info|.*_utils?)$")
FILE_LINES, FUNCTION_LINES, PARAMETERS = 600, 60, 6


def room_of(path: Path) -> str:
    inside = path.relative_to(PACKAGE)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""] if node.module != "allaboard" else [f"allaboard.{a.name}" for a in node.names]
    return []


def objections(text: str, path: Path) -> list[str]:
    """Every rule this file breaks, as sentences."""
    tree, room, inside = ast.parse(text), room_of(path), str(path.relative_to(PACKAGE))
    found = list(_naming(path)) + list(_sizes(tree, text))
    names = [name for node in ast.walk(tree) for name in imported(node)]
    rooms = {name.split(".")[1] for name in names if name.startswith("allaboard.")} - {"__version__"}
    if room in MAY_IMPORT and not rooms <= MAY_IMPORT[room] | {room}:
        found.append(f"{room} may not import {', '.join(sorted(rooms - MAY_IMPORT[room] - {room}))}")
    if inside not in LAZY and any(_hidden(tree)):
        found.append("imports belong at the top of the file")
    worldly = WORLDLY & {name.split(".")[0] for name in names}
    if worldly and path.stem not in EDGES.get(room, "").split() and room not in DOORS:
        found.append(f"{path.name} decides; only edges touch the world ({', '.join(sorted(worldly))})")
    return found


def _naming(path: Path):
    for part in path.relative_to(PACKAGE).parts:
        if FORBIDDEN.match(part.removesuffix(".py")):
            yield f"{part}: the name says nothing; name the idea"
    if len(path.relative_to(PACKAGE).parts) > 3:
        yield "folders are two deep"


def _sizes(tree: ast.Module, text: str):
    if not ast.get_docstring(tree):
        yield "no first sentence that says what lives here"
    if text.count("\n") > FILE_LINES:
        yield f"{text.count(chr(10))} lines; a file stops at {FILE_LINES}"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args.args + node.args.kwonlyargs + node.args.posonlyargs
            count = len([a for a in arguments if a.arg not in ("self", "cls")])
            if node.end_lineno - node.lineno + 1 > FUNCTION_LINES:
                yield f"{node.name}() is longer than {FUNCTION_LINES} lines"
            if count > PARAMETERS:
                yield f"{node.name}() takes {count} parameters; make a value of what travels together"


def _hidden(tree: ast.Module):
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in top:
            yield node


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_file_keeps_the_house_rules(path):
    assert not objections(path.read_text(), path)


PLANTED = {
    "a neighbour import": ("jobs/planted.py", '"""X."""\nfrom allaboard.training import info\n', "may not import"),
    "a neighbour import by name": ("jobs/planted.py", '"""X."""\nfrom allaboard import training\n', "may not import"),
    "a utils module": ("jobs/utils.py", '"""X."""\n', "name the idea"),
    "a hidden import": ("jobs/planted.py", '"""X."""\ndef f():\n    import json\n', "top of the file"),
    "a hidden import for types": ("jobs/planted.py", '"""X."""\nif X:\n    import json\n', "top of the file"),
    "a worldly import": ("jobs/planted.py", '"""X."""\nimport time\n', "only edges touch the world"),
    "a long function": ("jobs/planted.py", '"""X."""\ndef f():\n' + "    x = 1\n" * 61, "longer than"),
    "a parameter train": ("jobs/planted.py", '"""X."""\ndef f(a, b, c, d, e, g, h): ...\n', "parameters"),
    "no first sentence": ("jobs/planted.py", "x = 1\n", "first sentence"),
}


@pytest.mark.parametrize(("place", "text", "sentence"), PLANTED.values(), ids=PLANTED)
def test_a_planted_breach_is_found(place, text, sentence):
    assert any(sentence in objection for objection in objections(text, PACKAGE / place))
