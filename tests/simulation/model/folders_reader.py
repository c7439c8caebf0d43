"""What a restore reads, by the project's ``ChangelogReader``; and the cleaner."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from streamlet.state.changelog import ChangelogReader, encode_column
from streamlet.types import StateNumber
from tests.simulation.model.folders import Commit, Entry, FolderRules

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
    reader = ChangelogReader("changelog", limit, highest)
    reader.skipped = dict(_encoded(skipped))
    applied: list[tuple[str, str | None]] = []
    for offset in range(start, stop):
        entry = log[offset]
        if entry is None:
            continue
        if rules.ended and rules.numbers and _is_beyond_its_epoch(entry, commit):
            reader.skipped.pop(entry.key.encode(), None)
            reader.skipped[entry.key.encode()] = offset
            continue
        if not rules.epochs:
            reader.highest = 0
        applied += _feed(reader, offset, entry)
        highest = max(highest, reader.highest)
    after = tuple((key.decode(), offset) for key, offset in reader.skipped.items())
    return Chunk(tuple(applied), highest, after, reader.position(stop) if rules.held else stop)


def _encoded(skipped: Skipped) -> list[tuple[bytes, int]]:
    return [(key.encode(), offset) for key, offset in skipped]


def _feed(reader: ChangelogReader, offset: int, entry: Entry) -> list[tuple[str, str | None]]:
    value = None if entry.value is None else entry.value.encode()
    values, headers = encode_column(StateNumber(entry.epoch, entry.number), [value])
    keys, found = reader.read([offset], [entry.key.encode()], values, headers)
    return [
        (key.decode(), None if value is None else value.decode())
        for key, value in zip(keys, found, strict=True)
    ]


def _is_beyond_its_epoch(entry: Entry, commit: Commit) -> bool:
    """Whether an earlier epoch's record belongs to none of that epoch's commits."""
    if entry.epoch >= commit.state.epoch:
        return False
    last = {state.epoch: state.number for state in commit.ended}
    return entry.number > last.get(entry.epoch, 0)


def compacted(log: tuple[Entry | None, ...], below: int) -> tuple[Entry | None, ...]:
    """The cleaner: below an offset only the last record of each key is left."""
    last = {entry.key: offset for offset, entry in enumerate(log[:below]) if entry is not None}
    return tuple(
        None if entry is not None and offset < below and last[entry.key] != offset else entry
        for offset, entry in enumerate(log)
    )
