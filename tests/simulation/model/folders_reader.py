"""What a restore reads, by the project's ``ChangelogReader``; and the cleaner."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from streamlet.kafka.ports import PartitionBatch
from streamlet.state.changelog import ChangelogReader, RecordReader, encode_column
from streamlet.state.holding_reader import HoldingReader
from streamlet.types import StateNumber
from tests.simulation.model.folders import Commit, Entry, FolderRules, Held

Skipped = tuple[tuple[str, int], ...]


class Chunk(NamedTuple):
    """What was read: entries to apply, and the reader afterwards. ``persist``: what to note."""

    entries: tuple[tuple[str, str | None], ...]
    highest: int
    skipped: Skipped
    persist: int


@cache
def read(
    log: tuple[Entry | None, ...],
    start: int,
    stop: int,
    highest: int,
    skipped: Skipped,
    commit: Commit,
    rules: FolderRules,
) -> Chunk:
    """Go on reading from ``start`` to ``stop`` on the way up to ``commit``."""
    limit = commit.state if rules.numbers else None
    reader = ChangelogReader("changelog", limit, highest, commit.epoch)
    reader.skipped = dict(_encoded(skipped))
    applied: list[tuple[str, str | None]] = []
    for offset in range(start, stop):
        entry = log[offset]
        if entry is None:
            continue
        if not rules.epochs:  # a reader that has met nothing yet
            known, reader = reader, ChangelogReader("changelog", limit, 0, commit.epoch)
            reader.skipped = known.skipped
        applied += _feed(reader, offset, entry)
        highest = max(highest, reader.highest)
    after = tuple((key.decode(), offset) for key, offset in reader.skipped.items())
    return Chunk(tuple(applied), highest, after, reader.position(stop) if rules.held else stop)


def _encoded(skipped: Skipped) -> list[tuple[bytes, int]]:
    return [(key.encode(), offset) for key, offset in skipped]


def _feed(reader: RecordReader, offset: int, entry: Entry) -> list[tuple[str, str | None]]:
    value = None if entry.value is None else entry.value.encode()
    values, headers = encode_column(StateNumber(entry.epoch, entry.number), [value])
    keys: list[bytes | None] = [entry.key.encode()]
    return _decoded(
        *reader.read(PartitionBatch("changelog", 0, [offset], keys, values, [0], headers))
    )


def _decoded(keys: list[bytes], values: list[bytes | None]) -> list[tuple[str, str | None]]:
    return [
        (key.decode(), None if value is None else value.decode())
        for key, value in zip(keys, values, strict=True)
    ]


class Following(NamedTuple):
    """What a copy made of the records it read; ``persist``: the position it may note."""

    entries: tuple[tuple[str, str | None], ...]
    highest: int
    skipped: Skipped
    back: Held
    persist: int


@cache
def follow(
    log: tuple[Entry | None, ...],
    start: int,
    highest: int,
    skipped: Skipped,
    back: Held,
    limit: StateNumber | None,
) -> Following:
    """Go on following from ``start`` to the end of the log; with a limit, settle there (N5)."""
    reader = HoldingReader("changelog")
    for at, kept in back:  # as it stood: what is held back is released by none of itself
        assert not _feed(reader, at, kept)
    reader.highest = highest
    reader.skipped = dict(_encoded(skipped))
    held = list(back)
    applied: list[tuple[str, str | None]] = []
    for offset in range(start, len(log)):
        entry = log[offset]
        if entry is None:
            continue
        if entry.epoch >= reader.highest:
            held.append((offset, entry))
        applied += _feed(reader, offset, entry)
    if limit is not None:
        applied += _decoded(*reader.settle(limit))
    still = tuple(held[len(held) - reader.held :])
    after = tuple((key.decode(), offset) for key, offset in reader.skipped.items())
    return Following(tuple(applied), reader.highest, after, still, reader.position(len(log)))


def compacted(log: tuple[Entry | None, ...], below: int) -> tuple[Entry | None, ...]:
    """The cleaner: below an offset only the last record of each key is left."""
    last = {entry.key: offset for offset, entry in enumerate(log[:below]) if entry is not None}
    return tuple(
        None if entry is not None and offset < below and last[entry.key] != offset else entry
        for offset, entry in enumerate(log)
    )
