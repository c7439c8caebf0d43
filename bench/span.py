"""What a measured process says about itself: seconds, processor time, memory."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any


class Span:
    """Runs from the first record that is measured to the end of the last commit."""

    def __init__(self) -> None:
        self._started: tuple[float, float] | None = None
        self._seen_before = 0
        self._ended = (0.0, 0.0)
        self._rss_mb = 0.0

    @property
    def started(self) -> bool:
        """Whether a record was seen."""
        return self._started is not None

    def start(self, seen: int = 0) -> None:
        """The first record is there, or the first behind so many seen; the last call counts."""
        self._started = (time.monotonic(), time.process_time())
        self._seen_before = seen

    def end(self) -> None:
        """A commit ended; the last call counts."""
        self._ended = (time.monotonic(), time.process_time())
        self._rss_mb = peak_rss_mb()

    def report(self, records: int, **more: Any) -> None:
        """Write the result as the last line of standard output; ``records`` are all seen.

        ``from`` and ``to`` are seconds of the machine's monotonic clock, which processes share.
        """
        assert self._started is not None, "no record was seen"
        result = {
            "records": records - self._seen_before,
            "from": self._started[0],
            "to": self._ended[0],
            "cpu_s": self._ended[1] - self._started[1],
            "rss_mb": self._rss_mb,
            **more,
        }
        say(result)


def say(message: dict[str, Any]) -> None:
    """One line of JSON for the process that measures."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def peak_rss_mb() -> float:
    """Peak memory of this process, MiB.

    Linux' ``ru_maxrss`` would include what the parent had when it forked.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    bytes_per_unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * bytes_per_unit / 2**20
