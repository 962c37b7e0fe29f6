"""How a plane is set up, and what of it makes no sense."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from allaboard.api.errors import AboardError
from allaboard.points import nearest
from allaboard.sdk.home import Home


class BadSetting(AboardError):
    """A setting that makes no sense; the message has the nearest right word."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Settings:
    """How a plane is set up."""

    home: Home
    host: str = "127.0.0.1"
    port: int = 7443
    nodes: int = 1
    fake_gpus: int = 0
    host_path: tuple[str, ...] = ()  # folders hostPath volumes may use
    durability: str = "full"
    controllers: tuple[str, ...] = ()
    admission: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()  # of training, from outside, in the order they run
    gates: Mapping[str, bool] = field(default_factory=dict)
    tokens: str = ""
    auth: str = "allow"
    plain: bool = False
    verbose: bool = False


def chosen_names(given: object, registry: Mapping[str, object], option: str) -> tuple[str, ...]:
    """The names of a list option, checked; all of them where the option is not given."""
    if given is None:
        return tuple(registry)
    names = tuple(word for word in str(given).split(",") if word)
    for name in names:
        if name not in registry:
            raise BadSetting(f'{option}: unknown name "{name}"{nearest(name, registry)}')
    return names


GATES = {"TrainJobStatus": True, "RestartJob": False, "ElasticJobSet": False, "InPlaceRestart": False}


def read_gates(text: str) -> dict[str, bool]:
    """`Name=true,Name=false`, over the defaults."""
    gates = dict(GATES)
    for word in filter(None, text.split(",")):
        name, _, value = word.partition("=")
        if name not in GATES:
            raise BadSetting(f'--feature-gates: unknown gate "{name}"{nearest(name, GATES)}')
        if value.lower() not in ("true", "false"):
            raise BadSetting(f'--feature-gates: "{word}" must be {name}=true or {name}=false')
        gates[name] = value.lower() == "true"
    return gates


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
