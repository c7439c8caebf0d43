"""The line that ``streamlet run`` keeps up to date in a terminal: records, rate, lag, tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from streamlet.counted import counted
from streamlet.tools.output import CommandOutput

if TYPE_CHECKING:
    from streamlet.runtime.metrics.values import Snapshot

_RECORDS = "streamlet_stream_thread_process_total"
_RATE = "streamlet_stream_thread_process_rate"
_TASKS = "streamlet_stream_thread_tasks"
_LAG = "streamlet_consumer_fetch_manager_records_lag"


@attrs.frozen
class _Member:
    """Values of one worker. ``lag`` is None until the end of an input partition is known."""

    records: int = 0
    rate: float = 0.0
    tasks: int = 0
    lag: int | None = None


class LiveLine:
    """Adds up what the workers of an instance measure, and shows it once a second.

    Args:
        output: where to.
        name: the instance's.
    """

    def __init__(self, output: CommandOutput, name: str) -> None:
        self._output = output
        self._name = name
        #: By number; replaced as a whole, since each worker's events come on a thread of its own.
        self._members: dict[int, _Member] = {}
        #: Records of workers that ended.
        self._past = 0

    def take(self, member: int, snapshot: Snapshot) -> None:
        """A worker measured this."""
        self._members = {**self._members, member: _values(snapshot)}
        self._output.status(self.text)

    def ended(self, member: int) -> None:
        """A worker's process ended; the records that it processed still count."""
        self._past += self._members.get(member, _Member()).records
        self._members = {**self._members, member: _Member()}

    @property
    def shown(self) -> bool:
        """True if there is a terminal."""
        return self._output.draws

    @property
    def text(self) -> str:
        """The line."""
        members = self._members.values()
        records = self._past + sum(one.records for one in members)
        known = [one.lag for one in members if one.lag is not None]
        lag = f"{sum(known):,}" if known else "unknown"
        rate = sum(one.rate for one in members)
        done, tasks = counted(records, "record"), counted(sum(one.tasks for one in members), "task")
        return f"{self._name}: {done}, {rate:,.0f}/s, lag {lag}, {tasks}"


def _values(snapshot: Snapshot) -> _Member:
    found: dict[str, list[float]] = {}
    for metric, labels, value in snapshot.samples:
        if isinstance(value, list) or (metric == _TASKS and labels != ("active",)):
            continue
        found.setdefault(metric, []).append(value)
    lags = found.get(_LAG)
    return _Member(
        records=int(sum(found.get(_RECORDS, ()))),
        rate=sum(found.get(_RATE, ())),
        tasks=int(sum(found.get(_TASKS, ()))),
        lag=None if lags is None else int(sum(lags)),
    )
