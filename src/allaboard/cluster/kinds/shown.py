"""What the tables of several kinds have in common: a name, an age, and words for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from allaboard.api.documents import Document, Documents
from allaboard.cluster import ages
from allaboard.cluster.rules import Column

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"
NAME = Column(
    "Name", format="name", description="The name of the object, unique among its kind within its namespace or cluster."
)
AGE = Column("Age", description="How long ago the server created the object, from its creation timestamp until now.")
CONTAINERS = Column("Containers", priority=1, description="Names of each container in the template.")
IMAGES = Column("Images", priority=1, description="Images referenced by each container in the template.")


def column(name: str, about: str, *, type: str = "string", wide: bool = False) -> Column:
    """A column; a help text that upstream takes from its long field documentation is told in our own words."""
    return Column(name, type=type, description=about, priority=1 if wide else 0)


def name_of(document: Document) -> str:
    return str(document["metadata"].get("name", ""))


def age_of(document: Document, now: datetime) -> str:
    return ages.age(document["metadata"].get("creationTimestamp"), now)


def joined(values: Iterable[object], nothing: str = NONE) -> str:
    return ",".join(str(value) for value in values) or nothing


def pairs(labels: Document | None, nothing: str = NONE) -> str:
    return joined((f"{key}={value}" for key, value in sorted((labels or {}).items())), nothing)


def containers(listed: Documents) -> tuple[str, str]:
    """The names and the images of containers, each in one cell."""
    return (
        ",".join(str(c.get("name", "")) for c in listed),
        ",".join(str(c.get("image", "")) for c in listed),
    )


def selector(given: Document | None) -> str:
    """A label selector as text."""
    if given is None:
        return NONE
    parts = [f"{key}={value}" for key, value in sorted((given.get("matchLabels") or {}).items())]
    for expression in sorted(given.get("matchExpressions") or (), key=lambda e: str(e.get("key"))):
        key, values = expression.get("key"), ",".join(sorted(expression.get("values") or ()))
        operator = expression.get("operator")
        text = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": f"{key}"}
        parts.append(text.get(str(operator), f"!{key}"))
    return ",".join(parts) or NONE


def plain_row(document: Document, now: datetime) -> list[object]:
    return [name_of(document), age_of(document, now)]


def stamped_row(document: Document, now: datetime) -> list[object]:
    """A kind without a printer of its own shows when it was created, not how long ago."""
    return [name_of(document), document["metadata"].get("creationTimestamp")]


CREATED_AT = Column(
    "Created At",
    type="date",
    description="When the server created the object; set by the server, in UTC, never changed.",
)
