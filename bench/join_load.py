"""Input of the benchmark of joins: two topics of JSON records of about 50 bytes, by word.

Records are a millisecond apart, in an order of sides and words that is the same in each run. So
what a join must make of them can be computed without reading them. In the topics of a table each
word is there once before all other records.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import attrs

from bench.load import fill, key

_SEED = 7
_START_MS = 1_000_000_000_000
#: One row of the left table in so many names another row of the right one than it did before.
_MOVES = 10
#: Rows of the left table by those of the right one, in the join by foreign keys.
ROWS_BY_FOREIGN = 10


@attrs.frozen
class Row:
    """One record: its side (0 left, 1 right), word, number, and time, ms.

    ``to`` is the word of the right row that a left one names, -1 in all joins but the one by
    foreign keys.
    """

    side: int
    word: int
    number: int
    time: int
    to: int = -1

    @property
    def raw(self) -> bytes:
        """The value as it is in the topic."""
        if self.to >= 0:
            return b'{"n": %d, "to": "%s", "pad": "xxxxxxxx"}' % (self.number, key(self.to))
        return b'{"n": %d, "pad": "xxxxxxxxxxxxxxxx"}' % self.number


@attrs.frozen
class JoinLoad:
    """Records of two topics that are joined.

    Args:
        kind: of the join, as ``KINDS`` has it.
        records: of both topics.
        keys: different words.
    """

    kind: str
    records: int
    keys: int

    @property
    def within_ms(self) -> int:
        """How far records of two streams may be apart: each finds one of the other side."""
        return self.keys

    @property
    def topics(self) -> tuple[str, str]:
        """The names of both topics."""
        name = f"bench-join-{self.kind}-{self.records}-{self.keys}"
        return f"{name}-left", f"{name}-right"

    def rows(self) -> Iterator[Row]:
        """All records, in the order of their times."""
        rng = random.Random(_SEED)
        foreign = self.kind == "foreign_key"
        rights = max(1, self.keys // ROWS_BY_FOREIGN) if foreign else self.keys
        first = 0
        if self.kind in ("stream_table", "foreign_key"):
            first = rights
            for word in range(rights):
                yield Row(1, word, word, _START_MS + word)
        share = {"stream_table": 0.9, "foreign_key": 1.0}.get(self.kind, 0.5)
        for number in range(first, self.records):
            word, side = rng.randrange(self.keys), int(rng.random() >= share)
            moved = number if foreign and rng.randrange(_MOVES) == 0 else 0
            to = (word + moved) % rights if foreign else -1
            yield Row(side, word, number, _START_MS + number, to)


def load(bootstrap: str, wanted: JoinLoad) -> None:
    """Fill both topics unless a run before has."""
    rows = ((wanted.topics[row.side], row.raw, key(row.word), row.time) for row in wanted.rows())
    fill(bootstrap, wanted.topics, wanted.records, rows)
