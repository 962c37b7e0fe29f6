"""Which texts may be names, label keys, label values …: each rule answers with the complaints Kubernetes would make."""

from __future__ import annotations

import re
from collections.abc import Callable

from allaboard.api.errors import Cause

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME_PART = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_NAME_PART})?"
_ENV = "[-._a-zA-Z][-._a-zA-Z0-9]*"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_NO_PATH = "Invalid path"
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_AN_ALPHANUMERIC = "and must start and end with an alphanumeric character"
_LABEL_WORDS = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_AN_ALPHANUMERIC}"
)
_SUBDOMAIN_WORDS = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_AN_ALPHANUMERIC}"
)
_DNS1035_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character"
)
_PART_WORDS = f"must consist of alphanumeric characters, '-', '_' or '.', {_AN_ALPHANUMERIC}"
_VALUE_WORDS = (
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_AN_ALPHANUMERIC}"
)
_ENV_WORDS = (
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', "
    "and must not start with a digit"
)
_CONFIG_WORDS = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"


def _pattern(words: str, regex: str, *examples: str) -> str:
    shown = "',  or '".join(examples)
    return f"{words} (e.g. '{shown}', regex used for validation is '{regex}')"


_PART_COMPLAINT = _pattern(_PART_WORDS, _NAME_PART, "MyName", "my.name", "123-abc")
_LABEL_RE, _SUBDOMAIN_RE, _DNS1035_RE = (re.compile(text) for text in (_LABEL, _SUBDOMAIN, _DNS1035))
_PART_RE, _VALUE_RE, _ENV_RE = (re.compile(text) for text in (_NAME_PART, _VALUE, _ENV))
_CONFIG_RE, _PATH_RE = re.compile(_CONFIG_KEY), re.compile(_PATH)


def dns_label(text: str) -> list[str]:
    """RFC 1123 label: pod names in host names, container names, namespaces."""
    found = ["must be no more than 63 characters"] if len(text.encode()) > 63 else []
    if _LABEL_RE.fullmatch(text):
        return found
    if _SUBDOMAIN_RE.fullmatch(text):
        return [*found, "must not contain dots"]
    return [*found, _pattern(_LABEL_WORDS, _LABEL, "my-name", "123-abc")]


def dns_subdomain(text: str) -> list[str]:
    """RFC 1123 subdomain: the names of most objects."""
    found = ["must be no more than 253 characters"] if len(text.encode()) > 253 else []
    return found if _SUBDOMAIN_RE.fullmatch(text) else [*found, _pattern(_SUBDOMAIN_WORDS, _SUBDOMAIN, "example.com")]


def dns_1035_label(text: str) -> list[str]:
    """The names of services."""
    found = ["must be no more than 63 characters"] if len(text.encode()) > 63 else []
    return found if _DNS1035_RE.fullmatch(text) else [*found, _pattern(_DNS1035_WORDS, _DNS1035, "my-name", "abc-123")]


def qualified_name(text: str) -> list[str]:
    """Label keys, resource names, condition types: an optional domain, then a name."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        example = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_PART_COMPLAINT} {example}"]
    found = []
    if slash:
        found = (
            [f"prefix part {words}" for words in dns_subdomain(prefix)] if prefix else ["prefix part must be non-empty"]
        )
    if not name:
        found.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        found.append("name part must be no more than 63 bytes")
    return found if _PART_RE.fullmatch(name) else [*found, f"name part {_PART_COMPLAINT}"]


def label_value(text: str) -> list[str]:
    found = ["must be no more than 63 bytes"] if len(text.encode()) > 63 else []
    if _VALUE_RE.fullmatch(text):
        return found
    return [*found, _pattern(_VALUE_WORDS, _VALUE, "MyValue", "my_value", "12345")]


def env_name(text: str) -> list[str]:
    found = [] if _ENV_RE.fullmatch(text) else [_pattern(_ENV_WORDS, _ENV, "my.env-name", "MY_ENV.NAME", "MyEnvName1")]
    return found + _no_parent(text)


def config_key(text: str) -> list[str]:
    """Keys of ConfigMaps and Secrets, which become file names."""
    found = ["must be no more than 253 characters"] if len(text.encode()) > 253 else []
    if not _CONFIG_RE.fullmatch(text):
        found.append(_pattern(_CONFIG_WORDS, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    return found + _no_parent(text)


def _no_parent(text: str) -> list[str]:
    if text in (".", ".."):
        return [f"must not be '{text}'"]
    return ["must not start with '..'"] if text.startswith("..") else []


def port_name(text: str) -> list[str]:
    found = ["must be no more than 15 characters"] if len(text.encode()) > 15 else []
    if not re.fullmatch("[-a-z0-9]+", text):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        found.append("must contain at least one letter (a-z)")
    if "--" in text:
        found.append("must not contain consecutive hyphens")
    if text and "-" in (text[0], text[-1]):
        found.append("must not begin or end with a hyphen")
    return found


def domain_prefixed_path(text: str, field: str = "") -> list[Cause]:
    """`managedBy` values: a domain, a slash, a path."""
    if not text:
        return [Cause("FieldValueRequired", field, "")]
    host, slash, path = text.partition("/")
    if not slash or not host or not path:
        return [Cause("FieldValueInvalid", field, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    complaints = dns_subdomain(host)
    if not _PATH_RE.fullmatch(path):
        complaints.append(f"{_NO_PATH} (regex used for validation is '{_PATH}')")
    return [Cause("FieldValueInvalid", field, words) for words in complaints]


def accused(text: str, words: str) -> str:
    """Which part of a domain-prefixed path a complaint is about: the whole, the domain, or the path."""
    host, _, path = text.partition("/")
    if words.startswith("must be a domain-prefixed path"):
        return text
    return path if words.startswith(_NO_PATH) else host


Rule = Callable[[str], list[str]]
