"""What the doors may ask without a plane: schemas, rendering, linting, conversion, saved cycles."""

from __future__ import annotations

import difflib
import re

from allaboard.api import crds
from allaboard.api.documents import Document
from allaboard.api.kinds import Kind, kind_of
from allaboard.jobs.legacy import convert
from allaboard.kube.client import Reader
from allaboard.kube.clock import SystemClock
from allaboard.main import linting, planning
from allaboard.node import images as node_images
from allaboard.node import levels, profiles
from allaboard.scheduling import replay
from allaboard.training import lint, render

# What the doors may ask without a plane.
lint_report, lint_fix, render_texts = linting.report, lint.fix, render.texts
converted, probe = convert.convert, levels.probe
images, read_profile = node_images.Images, profiles.read_profile
forecast, fair_shares = planning.forecast, planning.fair_shares


async def snapshot(reader: Reader) -> bytes:
    """What a scheduling cycle on this cluster would see now."""
    now = SystemClock().now().timestamp()
    seen = await planning.look(reader, now)
    return replay.save(seen.state, now, seen.shard.spec)


def replayed(data: bytes) -> str:
    """The decisions of a saved cycle, as JSON."""
    return replay.told(replay.run(replay.load(data))).decode()


def nearest_field(document: Document, path: str) -> str:
    """The remedy for a misspelt field: the closest name its schema knows at that place."""
    schema = _schema(kind_of(document))
    *parents, last = re.sub(r"\[\d+\]", ".[]", path).split(".")
    for step in parents:
        schema = (schema.get("items") if step == "[]" else (schema.get("properties") or {}).get(step)) or {}
    names = list(schema.get("properties") or {})
    close = difflib.get_close_matches(last, names, n=1)
    return f'; did you mean "{close[0]}"?' if close else f"; known here: {', '.join(names)}" if names else ""


def _schema(kind: Kind) -> Document:
    """What a kind of ours may look like; nothing for Kubernetes' own kinds."""
    for crd in crds.documents():
        if crd["spec"]["names"]["kind"] == kind.kind and crd["spec"]["group"] == kind.group:
            versions = {version["name"]: version for version in crd["spec"]["versions"]}
            schema: Document = versions[kind.version]["schema"]["openAPIV3Schema"]
            return schema
    return {}
