"""The changelog to restore from: as many keys as wanted, 100 bytes each, as streamlet writes it."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Iterator

import attrs

from bench.broker import Topics
from bench.load import fast_producer, flushed
from streamlet.state.changelog import encode_column
from streamlet.state.rows import untimed
from streamlet.types import StateNumber

_SEED = 3
_PER_COMMIT = 10_000


@attrs.frozen
class Changelog:
    """A loaded changelog and what a store restored from it must hold.

    Fingerprints are over the values, with the number in front of each (``framed``) and without.
    """

    keys: int
    commits: int
    framed: int
    plain: int


def fingerprint(values: Iterable[bytes]) -> int:
    """A number that the values decide, in whatever order they come."""
    return sum(map(zlib.crc32, values))


def load_changelog(bootstrap: str, topic: str, keys: int) -> Changelog:
    """Make the topic and fill it, each commit with a number of its own."""
    topics = Topics(bootstrap)
    topics.delete(lambda name: name == topic)
    topics.create(topic, {"cleanup.policy": "compact", "segment.bytes": str(1 << 30)})
    producer = fast_producer(bootstrap)
    framed = plain = commits = 0
    for number, (names, values) in enumerate(_commits(keys), 1):
        encoded, _ = encode_column(StateNumber(1, number), untimed(values))
        for name, value in zip(names, encoded, strict=True):
            assert value is not None
            producer.produce(topic, value, name)
            framed += zlib.crc32(value)
        plain += fingerprint(values)
        producer.poll(0)
        commits = number
    flushed(producer)
    return Changelog(keys, commits, framed, plain)


def _commits(keys: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
    rng = random.Random(_SEED)
    order = list(range(keys))
    rng.shuffle(order)
    for start in range(0, keys, _PER_COMMIT):
        part = order[start : start + _PER_COMMIT]
        yield [b"key%09d" % key for key in part], [rng.randbytes(50).hex().encode() for _ in part]
