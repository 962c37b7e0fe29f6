"""What an initializer is asked to do, read from its environment."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from allaboard.initializers.errors import FetchError

# A model's weights come as safetensors; the same weights in older forms are left out (upstream's intended default).
MODEL_IGNORED = ("*.msgpack", "*.h5", "*.bin", "*.pt", "*.pth")
MODEL_ALLOWED = ("*.json", "*.safetensors", "*.model", "*.txt", "*.gguf", "*.jinja")
MOST_AT_ONCE = 64


@dataclass(frozen=True)
class Settings:
    """One fetch: from where, to where, and with which rights."""

    kind: str  # dataset or model
    uri: str
    folder: Path
    ignored: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    token: str = ""
    endpoint: str = ""
    key: str = ""
    secret: str = ""
    session: str = ""
    region: str = ""
    role: str = ""
    claims: Path = Path("/mnt/pvc")
    at_once: int = 8

    @property
    def parts(self) -> SplitResult:
        return urlsplit(self.uri)

    @property
    def scheme(self) -> str:
        return self.parts.scheme.lower()

    def wants(self, name: str) -> bool:
        """Whether a file of this name is part of what was asked for."""
        base = name.rpartition("/")[2]
        if any(fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(base, pattern) for pattern in self.ignored):
            return False
        return not self.allowed or any(fnmatch.fnmatch(base, pattern) for pattern in self.allowed)


def read(kind: str, env: Mapping[str, str]) -> Settings:
    """The settings of a data set's or a model's initializer; an empty variable counts as absent."""
    given = {name: value.strip() for name, value in env.items() if value.strip()}
    uri = given.get("STORAGE_URI", "")
    if not uri:
        raise FetchError("STORAGE_URI: is not set; give the TrainJob an initializer storageUri")
    is_hub_model = kind == "model" and uri.startswith("hf://")
    patterns = tuple(pattern.strip() for pattern in given.get("IGNORE_PATTERNS", "").split(",") if pattern.strip())
    return Settings(
        kind=kind,
        uri=uri,
        folder=Path(given.get("OUTPUT_DIR", f"/workspace/{kind}")),
        ignored=patterns or (MODEL_IGNORED if kind == "model" else ()),
        allowed=MODEL_ALLOWED if is_hub_model else (),
        token=given.get("ACCESS_TOKEN", ""),
        endpoint=given.get("ENDPOINT", "").rstrip("/"),
        key=given.get("ACCESS_KEY_ID", given.get("AWS_ACCESS_KEY_ID", "")),
        secret=given.get("SECRET_ACCESS_KEY", given.get("AWS_SECRET_ACCESS_KEY", "")),
        session=given.get("SESSION_TOKEN", given.get("AWS_SESSION_TOKEN", "")),
        region=given.get("REGION", given.get("AWS_REGION", "")),
        role=given.get("ROLE_ARN", ""),
        claims=Path(given.get("PVC_ROOT", "/mnt/pvc")),
        at_once=_count(given.get("PARALLEL_DOWNLOADS", "8")),
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_AT_ONCE:
        raise FetchError(f'PARALLEL_DOWNLOADS: "{text}" is no count; must be between 1 and {MOST_AT_ONCE}')
    return int(text)
