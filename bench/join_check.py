"""The results that joins must have, and a comparison with those that were written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import attrs
import orjson

from bench.broker import read_all
from bench.join_load import JoinLoad, Row
from bench.load import key

#: Of a result: the numbers of its left and right record.
Pair = tuple[int, int]


def check_join(bootstrap: str, output: str, load: JoinLoad) -> str:
    """The fault in the results; an empty text when there is none.

    Each result must be there as often as it should, and the last one of each word as well where
    both sides are tables.
    """
    found, want = Results(), Results()
    for batch in read_all(bootstrap, output):
        for message in batch:
            value = orjson.loads(message.value() or b"null")
            found.add(message.key() or b"", (value["left"], value["right"]))
    for word, pair in expected(load):
        want.add(key(word), pair)
    if load.kind in ("table_table", "foreign_key") and found.last != want.last:
        wrong = [word for word in want.last if found.last.get(word) != want.last[word]]
        return f"{len(wrong)} of {len(want.last)} rows are wrong, such as {wrong[:3]}"
    if load.kind != "foreign_key" and (found.count, found.sum) != (want.count, want.sum):
        return (
            f"{found.count} results, of the sum {found.sum}, in place of {want.count}, {want.sum}"
        )
    return ""


@attrs.define
class Results:
    """Results of a join: how many, a number that they decide in any order, the last of each key."""

    count: int = 0
    sum: int = 0
    last: dict[bytes, Pair] = attrs.field(factory=dict)

    def add(self, word: bytes, pair: Pair) -> None:
        """Take a result."""
        self.count += 1
        self.sum += hash(pair) & 0xFFFFFFFF
        self.last[word] = pair


def expected(load: JoinLoad) -> Iterator[tuple[int, Pair]]:
    """The results with their words; of a join by foreign keys those that are not out of date."""
    if load.kind == "stream_stream":
        return _near(load)
    if load.kind == "foreign_key":
        return _named(load)
    return _newest(load, of_table=load.kind == "table_table")


def _near(load: JoinLoad) -> Iterator[tuple[int, Pair]]:
    """Each record with those of the other side before it that are not too far."""
    kept: tuple[dict[int, list[Row]], ...] = defaultdict(list), defaultdict(list)
    for row in load.rows():
        others = kept[1 - row.side][row.word]
        others[:] = [one for one in others if one.time >= row.time - load.within_ms]
        for one in others:
            yield row.word, _pair(row, one)
        kept[row.side][row.word].append(row)


def _newest(load: JoinLoad, of_table: bool) -> Iterator[tuple[int, Pair]]:
    """Each left record, and each right one of a table, with the newest one of the other side."""
    newest: tuple[dict[int, Row], ...] = {}, {}
    for row in load.rows():
        other = newest[1 - row.side].get(row.word)
        newest[row.side][row.word] = row
        if other is not None and (of_table or row.side == 0):
            yield row.word, _pair(row, other)


def _named(load: JoinLoad) -> Iterator[tuple[int, Pair]]:
    """Each left row with the right one that it names."""
    rights = {row.word: row for row in load.rows() if row.side == 1}
    for row in load.rows():
        if row.side == 0:
            yield row.word, (row.number, rights[row.to].number)


def _pair(one: Row, other: Row) -> Pair:
    return (one.number, other.number) if one.side == 0 else (other.number, one.number)
