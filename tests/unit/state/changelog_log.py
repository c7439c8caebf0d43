"""A changelog partition that tests write as an owner does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamlet.kafka.ports import PartitionBatch
from streamlet.state.changelog import ChangelogReader, encode_column
from streamlet.state.holding_reader import HoldingReader
from streamlet.types import StateNumber


class Log:
    """A changelog partition being written, flush by flush."""

    def __init__(self) -> None:
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: list[Any] = []

    def flush(self, epoch: int, number: int, **entries: bytes | None) -> Log:
        return self.flush_all(
            StateNumber(epoch, number), {k.encode(): v for k, v in entries.items()}
        )

    def flush_all(self, state: StateNumber, entries: dict[bytes, bytes | None]) -> Log:
        values, headers = encode_column(state, list(entries.values()))
        self.keys += entries
        self.values += values
        self.headers += headers or [None] * len(values)
        return self

    def read(self, reader: ChangelogReader, start: int = 0) -> dict[bytes, bytes | None]:
        """What the store holds after the reader read all from ``start``."""
        return dict(zip(*reader.read(self.batch(start)), strict=True))

    def batch(self, start: int = 0, stop: int | None = None) -> PartitionBatch:
        """The records from an offset on."""
        offsets = range(len(self.keys))
        return batch_of(offsets, self.keys, self.values, self.headers).slice(start, stop)


def batch_of(
    offsets: Sequence[int],
    keys: list[bytes | None],
    values: list[bytes | None],
    headers: list[Any] | None = None,
    times: list[int] | None = None,
) -> PartitionBatch:
    """Records, at time 0 if nothing else is said."""
    times = times or [0] * len(keys)
    return PartitionBatch("st-changelog", 0, offsets, keys, values, times, headers)


def follow(log: Log, *cuts: int) -> tuple[HoldingReader, dict[bytes, bytes | None]]:
    """A follower that read the whole log, in pieces ending at the cuts; what its store holds."""
    follower, store = HoldingReader("st-changelog-0"), {}
    start = 0
    for stop in (*cuts, len(log.keys)):
        store.update(zip(*follower.read(log.batch(start, stop)), strict=True))
        start = stop
    return follower, store


def settled(follower: HoldingReader, store: dict[bytes, bytes | None], *limit: int) -> Any:
    """What the store holds once this commit decides."""
    store.update(zip(*follower.settle(StateNumber(*limit)), strict=True))
    return store
