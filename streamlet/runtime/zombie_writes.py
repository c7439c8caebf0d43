"""Finds zombie writes: records of other processes in a changelog that is ours.

Under at_least_once the broker fences no producer: a process that lost its task may still deliver
what it had queued. Its records bear an older epoch, and a reader that has met ours skips them; but
one that lies below our first record would be believed as soon as a commit of ours says that
everything up to it counts. So after each flush the changelog must be longer by just what we sent.
Where it is not, the keys of the zombie are written again, before the commit.
"""

from __future__ import annotations

from collections.abc import Callable

from streamlet.clock import Clock
from streamlet.errors import BrokerError, TaskMigratedError
from streamlet.kafka.ports import RecordSource
from streamlet.state.changelog import decode
from streamlet.types import TopicPartition

POLL_MS = 50


def foreign_keys(
    open_source: Callable[[], RecordSource],
    changelog: TopicPartition,
    start: int,
    end: int,
    epoch: int,
    *,
    clock: Clock,
    timeout_ms: int,
) -> list[bytes]:
    """Keys of the records in [start, end) that bear another epoch than ours, each once, in order.

    Raises:
        TaskMigratedError: a later epoch is among them: then we are the zombie.
        BrokerError: they cannot be read in ``timeout_ms``.
    """
    deadline = clock.now_ms() + timeout_ms
    found: dict[bytes, None] = {}
    source = open_source()
    try:
        source.assign({changelog: start})
        position = start
        while position < end:
            if clock.now_ms() > deadline:
                raise BrokerError(f"{changelog} could not be read again in {timeout_ms} ms")
            for batch in source.poll(10_000, POLL_MS):
                heads = batch.headers or [None] * len(batch)
                rows = zip(batch.offsets, batch.keys, batch.values, heads, strict=True)
                for offset, key, value, head in rows:
                    theirs = decode(value, head)[0].epoch
                    if offset >= end or key is None or theirs == epoch:
                        continue
                    if theirs > epoch:
                        raise TaskMigratedError(
                            f"{changelog} has records of epoch {theirs}, ours is {epoch}: another "
                            "member took the task over"
                        )
                    found[key] = None
                position = batch.offsets[-1] + 1
    finally:
        source.close()
    return list(found)
