"""Searches the changelogs of a task for the newest commit entry that can be relied upon."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streamlet.clock import Clock
from streamlet.errors import UnreachableError
from streamlet.kafka.ports import RecordSource
from streamlet.state.changelog import decode
from streamlet.state.entries import ChangelogEntries, CommitEntry, newest_complete
from streamlet.types import TopicPartition

POLL_MS = 100
POLL_RECORDS = 10_000


def search_entries(
    open_source: Callable[[], RecordSource],
    logs: Mapping[TopicPartition, tuple[int, int]],
    *,
    clock: Clock,
    timeout_ms: int,
    starts: Mapping[str, int] | None = None,
) -> CommitEntry | None:
    """Read whole changelog partitions; None if their entries do not tell for certain.

    Args:
        open_source: a consumer with headers.
        logs: start and end of each changelog partition.
        clock: for the time limit.
        timeout_ms: how long no record may come.
        starts: as in ``newest_complete``.

    Raises:
        UnreachableError: nothing can be read in that time.
        BrokerError: what the client reports as fatal.
    """
    found = {tp: ChangelogEntries() for tp in logs}
    left = {tp: end for tp, (start, end) in logs.items() if start < end}
    source = open_source()
    try:
        source.assign({tp: logs[tp][0] for tp in left})
        deadline = clock.now_ms() + timeout_ms
        while left:
            if clock.now_ms() > deadline:
                names = ", ".join(map(str, sorted(left)))
                raise UnreachableError(f"{names} could not be read in {timeout_ms} ms")
            for batch in source.poll(POLL_RECORDS, POLL_MS):
                deadline = clock.now_ms() + timeout_ms
                entries = found[TopicPartition(batch.topic, batch.partition)]
                heads = batch.headers or [None] * len(batch)
                for value, head in zip(batch.values, heads, strict=True):
                    try:
                        state, _ = decode(value, head)
                    except ValueError:
                        continue  # restoring says what is wrong with it
                    entries.take(state, head)
            for tp, position in source.positions(list(left)).items():
                if position >= left[tp]:
                    del left[tp]
    finally:
        source.close()
    return newest_complete({tp.topic: entries for tp, entries in found.items()}, starts)
