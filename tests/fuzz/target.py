"""A parser of bytes from outside, as the fuzz suite has it; values that several have."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.edges.records import edge_of, pack
from streamlet.types import TopicPartition

#: What separates the parts of an input that has several.
SEAM = b"\x1e\x1f"


@attrs.frozen
class Target:
    """A parser.

    Attributes:
        name: of it, in the table and on the command line.
        read: reads an input, and uses what it found as the program does.
        errors: what it may raise.
        seeds: whole inputs.
        found: inputs that went wrong once.
        batch: inputs in turn with those of other parsers: fewer of what takes long.
    """

    name: str
    read: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]
    seeds: tuple[bytes, ...]
    found: tuple[bytes, ...] = ()
    batch: int = 1_000

    def check(self, raw: bytes) -> bool:
        """Read an input; False if it was refused as documented. Any other error is raised."""
        try:
            self.read(raw)
        except self.errors:
            return False
        return True


INPUT = TopicPartition("lines", 0)
DEEP = b"[" * 100_000


def batch_of(values: list[bytes | None]) -> PartitionBatch:
    count = len(values)
    return PartitionBatch("r", 0, range(count), [b"k"] * count, values, [0] * count)


EDGE = edge_of(INPUT, "id")
PREFIXED: list[bytes | None] = [
    *pack([b"v", None, b"w"], [EDGE] * 3, [1 << 20, 2 << 20, 3 << 20], [0, 1 << 20 | 1, 0])
]
