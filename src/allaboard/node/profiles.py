"""Image profiles: which local environment stands for an image name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from allaboard.api.documents import Document
from allaboard.api.errors import AboardError
from allaboard.node.hosts import Person

FIELDS = frozenset({"name", "images", "python", "requirements", "env", "user", "files", "command", "path"})


@dataclass(frozen=True, slots=True)
class Profile:
    """What a container of these images gets: an interpreter and its tools first on the PATH, a user, variables, files.

    `requirements` instead of `python` means: an environment of its own, made from them once and kept.
    """

    name: str
    images: tuple[str, ...] = ()
    python: str = ""
    requirements: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: Person | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()

    def document(self) -> Document:
        found: Document = {"name": self.name, "images": list(self.images), "python": self.python}
        found |= {"requirements": list(self.requirements), "path": list(self.path), "env": dict(self.env)}
        found |= {"files": dict(self.files), "command": list(self.command)}
        if self.user:
            found["user"] = {"name": self.user.name, "uid": self.user.uid, "gid": self.user.gid, "home": self.user.home}
        return {key: value for key, value in found.items() if value}


def read_profile(document: Document) -> Profile:
    """A profile as a user wrote it; what we do not know is refused by name."""
    unknown = sorted(set(document) - FIELDS)
    if unknown or not document.get("name"):
        what = f'unknown field "{unknown[0]}"' if unknown else "no name"
        raise AboardError(f"image profile: {what}; must have a name and any of: {', '.join(sorted(FIELDS))}")
    user = document.get("user")
    person = None
    if user:
        uid = int(user.get("uid", 0))
        home = user.get("home", f"/home/{user['name']}")
        person = Person(user["name"], uid, int(user.get("gid", uid)), home, "/bin/bash")
    return Profile(
        name=document["name"],
        images=tuple(document.get("images") or ()),
        python=document.get("python", ""),
        requirements=tuple(document.get("requirements") or ()),
        path=tuple(document.get("path") or ()),
        env=dict(document.get("env") or {}),
        user=person,
        files=dict(document.get("files") or {}),
        command=tuple(document.get("command") or ()),
    )


@dataclass(frozen=True, slots=True)
class Choice:
    """The profile for an image, and whether it was named for it or is only the default."""

    profile: Profile
    known: bool


def choose(image: str, profiles: Sequence[Profile], default: Profile) -> Choice:
    """The first profile with a pattern for this image, with or without its tag."""
    bare = image.partition("@")[0]
    head, _, tag = bare.rpartition(":")
    untagged = head if head and "/" not in tag else bare
    for profile in profiles:
        for pattern in profile.images:
            if fnmatchcase(bare, pattern) or fnmatchcase(untagged, pattern):
                return Choice(profile, known=True)
    return Choice(default, known=False)
