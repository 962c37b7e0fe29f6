"""All Aboard: gang-scheduled distributed training, from one laptop command to any Kubernetes cluster."""

import importlib

__version__ = "0.1.0"
__all__ = ["Aboard", "__version__", "train"]

# What `from allaboard import …` offers, and where it lives; loaded when it is first asked for.
DOORS = {"Aboard": "allaboard.sdk.blocking", "train": "allaboard.sdk.blocking"}


def __getattr__(name: str) -> object:
    if name in DOORS:
        return getattr(importlib.import_module(DOORS[name]), name)
    raise AttributeError(f'allaboard has no "{name}"; it has: {", ".join(DOORS)}')
