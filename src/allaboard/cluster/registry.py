"""Which kinds are served: the built-in ones, and those that definitions in the store add."""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api.documents import Document
from allaboard.api.errors import ApiError
from allaboard.api.kinds import Kind
from allaboard.api.meta import is_true, name_of
from allaboard.cluster.converting import Reach
from allaboard.cluster.rules import Rules, from_crd


class Registry:
    """Rules by where they are served; changes when a CustomResourceDefinition does."""

    def __init__(self, builtin: Iterable[Rules], reach: Reach = lambda: None) -> None:
        self.builtin = tuple(builtin)
        self.reach = reach  # how conversion webhooks are called
        self.custom: dict[str, tuple[Rules, ...]] = {}  # by the name of their definition
        self.builtin_groups = frozenset(rules.kind.group for rules in self.builtin)
        self.generation = 0  # raised with every change; discovery and OpenAPI documents are kept per generation
        self._index()

    def learn(self, definition: Document) -> None:
        """Serve what an established definition says; a definition that is not established is not served."""
        try:
            served = tuple(from_crd(definition, self.reach)) if is_true(definition, "Established") else ()
        except ApiError:  # a stored definition that newer rules refuse is not served; its objects stay
            served = ()
        self.custom[name_of(definition)] = served
        self._index()

    def forget(self, name: str) -> None:
        self.custom.pop(name, None)
        self._index()

    def rules(self) -> tuple[Rules, ...]:
        return self.builtin + tuple(rules for served in self.custom.values() for rules in served)

    def find(self, group: str, version: str, plural: str) -> Rules | None:
        return self._paths.get((group, version, plural))

    def of(self, kind: Kind) -> Rules:
        """The rules of a kind; KeyError where it is not served."""
        return self._paths[kind.group, kind.version, kind.plural]

    def named(self, api_version: str, kind: str) -> Rules | None:
        """The rules of a kind as a document or an owner reference names it."""
        return self._names.get((api_version, kind))

    def in_group(self, group: str, kind: str) -> Rules | None:
        """The rules of a kind in any version of its group."""
        return next((r for r in self.rules() if r.kind.group == group and r.kind.kind == kind), None)

    def at_table(self, table: str) -> Rules | None:
        """The rules of what is stored in a table, in its first version."""
        return self._tables.get(table)

    def versions(self, rules: Rules) -> list[Rules]:
        """The rules of a kind in every version and group it is served in."""
        table = table_of(rules)
        return [each for each in self.rules() if table_of(each) == table]

    def has_group(self, group: str) -> bool:
        return any(rules.kind.group == group for rules in self.rules())

    def _index(self) -> None:
        served = self.rules()
        self.generation += 1
        self._paths = {(r.kind.group, r.kind.version, r.kind.plural): r for r in served}
        self._names = {(r.kind.api_version, r.kind.kind): r for r in served}
        self._tables: dict[str, Rules] = {}
        for rules in served:
            self._tables.setdefault(table_of(rules), rules)


def table_of(rules: Rules) -> str:
    """Where a kind is stored; several versions and both Event groups share a table."""
    return rules.store or rules.kind.resource
