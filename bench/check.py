"""Compares what an application wrote with what it must have written."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import TypeVar

import orjson

from bench.broker import read_all
from bench.load import expected_counts
from bench.window_load import WindowLoad

K = TypeVar("K", bytes, tuple[bytes, int], tuple[bytes, bytes])

_EXAMPLES = 3


def check_wordcount(
    bootstrap: str, output: str, records: int, keys: int, *, on_commit: bool = False
) -> str:
    """What is wrong with the updates in the output topic; an empty text when nothing is.

    There must be an update per input record, unless they were sent ``on_commit``, and the last one
    of each word must have its count.
    """
    got, updates = counts_in(bootstrap, output)
    wanted = updates if on_commit and keys <= updates <= records else records
    return difference(expected_counts(records, keys), got, wanted, updates)


def check_windows(bootstrap: str, output: str, load: WindowLoad) -> str:
    """The fault in the updates of windows; an empty text when there is none.

    There must be an update per input record, and the last one of each window must have its count.
    """
    got, updates = windows_in(bootstrap, output)
    return difference(load.expected(), got, load.preload + load.records, updates)


def check_passthrough(bootstrap: str, source: str, output: str, records: int, keys: int) -> str:
    """What is wrong with the copy; an empty text when nothing is.

    Each word must be there as often as in the input, and the values must be the same ones.
    """
    got: Counter[bytes] = Counter()
    for batch in read_all(bootstrap, output):
        got.update([message.key() or b"" for message in batch])
    wrong = difference(expected_counts(records, keys), got, records, got.total())
    if wrong:
        return wrong
    if _fingerprint(bootstrap, source) != _fingerprint(bootstrap, output):
        return "the values differ from the input's"
    return ""


def _fingerprint(bootstrap: str, topic: str) -> int:
    """A number that the values decide, in whatever order they lie."""
    return sum(
        zlib.crc32(message.value() or b"")
        for batch in read_all(bootstrap, topic)
        for message in batch
    )


def counts_in(bootstrap: str, output: str) -> tuple[dict[bytes, int], int]:
    """The last count of each word in the output, by its key, and the number of updates.

    An update with the key of another word counts for a key that no word has.
    """
    got: dict[bytes, int] = {}
    updates = 0
    for batch in read_all(bootstrap, output):
        updates += len(batch)
        for message in batch:
            update = orjson.loads(message.value() or b"null")
            word = update["word"].encode()
            if word != message.key():
                word = b"%b for %b" % (message.key() or b"", word)
            got[word] = update["count"]
    return got, updates


def windows_in(bootstrap: str, output: str) -> tuple[dict[tuple[bytes, int], int], int]:
    """The last count of each window in the output, by word and start, and the number of updates."""
    got: dict[tuple[bytes, int], int] = {}
    updates = 0
    for batch in read_all(bootstrap, output):
        updates += len(batch)
        for message in batch:
            key, value = message.key() or b"", message.value() or b""
            got[key[:-8], int.from_bytes(key[-8:], "big")] = int.from_bytes(value, "big")
    return got, updates


def difference(expected: dict[K, int], got: dict[K, int], records: int, written: int) -> str:
    """The faults of counts and of the number of records; an empty text when there is none."""
    wrong = [word for word in sorted(expected) if got.get(word) != expected[word]]
    if wrong or len(got) != len(expected):
        some = [(word, expected[word], got.get(word)) for word in wrong[:_EXAMPLES]]
        return (
            f"{len(wrong)} of {len(expected)} keys are wrong, {len(got)} were written; "
            f"(key, expected, got): {some}"
        )
    if written != records:
        return f"{written} records were written for {records} read"
    return ""
