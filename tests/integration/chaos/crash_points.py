"""Kills a worker between two steps of a commit by a transaction, each place once.

``CRASHES`` names a folder. The first worker that comes to a place after some commits leaves a file
of that name there, and is killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamlet.kafka.transactions import TransactionalSink
from streamlet.tasks.transactional_commit import TransactionalCommit

CRASHES = "CHAOS_CRASHES"
#: Behind the flush, the positions, the end of the transaction, its answer.
PLACES = ("flushed", "positioned", "committed", "answered")
#: Commits of a worker before the first place, and between two.
PAUSE = 10


class CrashPoints:
    """The places of one worker, taken in order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._commits = 0

    def come_to(self, place: str) -> None:
        """Die here, if it is this place's turn."""
        self._commits += place == PLACES[0]
        left = [one for one in PLACES if not (self._folder / one).exists()]
        if left[:1] == [place] and self._commits > PAUSE:
            (self._folder / place).touch()
            os.kill(os.getpid(), signal.SIGKILL)


def crash(folder: Path) -> None:
    """Put the places into the code that commits."""
    points = CrashPoints(folder)

    def before(owner: type, name: str, place: Callable[..., str]) -> None:
        method = getattr(owner, name)

        def come_first(self: Any, *args: Any) -> Any:
            points.come_to(place(*args))
            return method(self, *args)

        setattr(owner, name, come_first)

    def call_of(until_ms: int, call: Callable[..., Any]) -> str:
        return "positioned" if call.__name__ == "commit_transaction" else ""

    before(TransactionalSink, "seal", lambda *args: "flushed")
    before(TransactionalSink, "_until", call_of)
    before(TransactionalCommit, "_accepted", lambda *args: "committed")
    before(TransactionalCommit, "_write", lambda *args: "answered")
