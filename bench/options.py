"""The types of arguments that options of several workloads have."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

#: Of the applications that are measured, each in the words of ``processing.guarantee``.
GUARANTEES = ("at_least_once", "exactly_once")
#: Of chaos besides: instances are restarted from one to the other.
SWITCH = "switch"


def count(text: str) -> int:
    """A number from 1 on, which may have underscores.

    Raises:
        argparse.ArgumentTypeError: it is less.
    """
    number = int(text.replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def counts(text: str) -> list[int]:
    """Numbers by commas."""
    return [count(one) for one in text.split(",")]


def chosen(text: str, among: Sequence[str]) -> list[str]:
    """Names by commas.

    Raises:
        argparse.ArgumentTypeError: one is not among these.
    """
    names = text.split(",")
    unknown = sorted(set(names) - set(among))
    if unknown:
        raise argparse.ArgumentTypeError(
            f"unknown: {', '.join(unknown)}; there are {', '.join(among)}"
        )
    return names
