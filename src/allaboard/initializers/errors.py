"""What can go wrong while fetching, said in one sentence with the next step."""

from __future__ import annotations


class FetchError(Exception):
    """The message is for the person who wrote the TrainJob."""


class TryAgain(FetchError):
    """The source may answer better next time."""
