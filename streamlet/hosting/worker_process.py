"""A worker's process as its supervisor has it."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import attrs

from streamlet.hosting.fork_server import ForkedProcess


@attrs.define(eq=False)
class WorkerProcess:
    """One worker's process, or the wait for its restart."""

    member: int
    process: ForkedProcess | None = None
    events: int = -1  # read end of the pipe its events come through
    unread: bytes = b""
    passing: bool = False  # what it reported last: a failure that time alone may mend
    refused: bool = False  # it reported that only a person can mend its failure
    failures: list[int] = attrs.field(factory=list)
    started_ms: int = 0
    pause_ms: int = 0  # between its last end and its next start
    start_at_ms: int = 0
    member_id: str = ""  # what the group knows it by, as far as it reported that
    began: bool = False  # it reported that it began: from then on user code may run
    broken: str = ""  # the traceback of our own fault that ended it last
    #: The exit code that it reported as its own; None: no report has come.
    reported: int | None = None
    exit_code: int | None = None
    drained: bool = False  # it ended because the instance leaves
    answer: str | None = None  # of ``uncaught_handler``, to the error that ended it
    removed: bool = False  # it is to end for good, and the instance goes on without it

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self.process is not None and self.process.poll() is None

    def tell(self, order: dict[str, Any]) -> None:
        """Give it an order, if it runs."""
        if self.process is None or self.process.stdin is None:
            return
        with contextlib.suppress(BrokenPipeError):  # it is gone; the supervisor sees why
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()
