"""Reading what people write: YAML and JSON files, with kubectl's meaning and the place of every field kept."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from allaboard.api.documents import Document
from allaboard.api.errors import AboardError

SUFFIXES = (".yaml", ".yml", ".json")


class BadFile(AboardError):
    """A file that cannot be read as documents; the message says where."""

    exit_code = 6


@dataclass(frozen=True, slots=True)
class Manifest:
    """One document of a file, and where in the file each of its fields stands."""

    document: Document
    source: str
    places: dict[str, tuple[int, int]]

    def where(self, path: str = "") -> str:
        """`job.yaml:7:3` for a field path such as `spec.trainer.numNodes`; the nearest parent if it is not there."""
        while path and path not in self.places:
            path = re.sub(r"(\.[^.\[]+|\[\d+\]|^[^.\[]+)$", "", path)
        line, column = self.places.get(path, (1, 1))
        return f"{self.source}:{line}:{column}"


def load(source: str) -> list[Manifest]:
    """Every document of a file, a folder or `-` (standard input)."""
    if source == "-":
        return _parse(sys.stdin.read(), "<stdin>")
    path = Path(source)
    if path.is_dir():
        found = [manifest for file in sorted(path.iterdir()) if file.suffix in SUFFIXES for manifest in _read(file)]
        if not found:
            raise BadFile(f"{source}: no .yaml, .yml or .json file in this folder")
        return found
    return _read(path)


def _read(path: Path) -> list[Manifest]:
    try:
        text = path.read_text()
    except FileNotFoundError as error:
        near = [p.name for p in path.parent.glob("*") if p.suffix in SUFFIXES] if path.parent.is_dir() else []
        remedy = f"this folder has: {', '.join(sorted(near)[:5])}" if near else "check the path"
        raise BadFile(f"{path}: no such file; {remedy}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path}: cannot be read: {error}") from error
    return _parse(text, str(path))


def _parse(text: str, source: str) -> list[Manifest]:
    try:
        nodes = [node for node in yaml.compose_all(text, Loader=yaml.CSafeLoader) if node is not None]
        return [manifest for node in nodes for manifest in _manifests(node, source)]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        raise BadFile(f"{place}: is not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise BadFile(f"{source}: is not YAML: {str(error).splitlines()[0]}") from error


def _manifests(node: yaml.Node, source: str) -> list[Manifest]:
    places: dict[str, tuple[int, int]] = {}
    _walk(node, "", places, source)
    loader = _Loader("")
    document = loader.construct_document(node)
    if not isinstance(document, dict):
        line = node.start_mark.line + 1
        raise BadFile(f"{source}:{line}:1: a document must be a mapping of fields, not {type(document).__name__}")
    if document.get("kind") == "List":
        return [Manifest(item, source, places) for item in document.get("items") or []]
    return [Manifest(document, source, places)]


def _walk(node: yaml.Node, path: str, places: dict[str, tuple[int, int]], source: str) -> None:
    """Note where each field stands; a key written twice is refused, because one of them would be lost."""
    places.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            inner = f"{path}.{key.value}" if path else str(key.value)
            line, column = key.start_mark.line + 1, key.start_mark.column + 1
            if key.value in seen:
                raise BadFile(f'{source}:{line}:{column}: key "{key.value}" is written twice; keep one')
            seen.add(key.value)
            places[inner] = (line, column)
            _walk(value, inner, places, source)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _walk(item, f"{path}[{index}]", places, source)


class _Loader(yaml.SafeLoader):
    """YAML as kubectl reads it: dates stay text, keys are text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        return {_text(key): value for key, value in super().construct_mapping(node, deep=deep).items()}


def _text(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: node.value)
