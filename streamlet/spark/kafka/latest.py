"""Leaves out what a later record of the same batch replaces: the last per topic and key."""

from __future__ import annotations

from collections.abc import Iterable

from streamlet.kafka.ports import Headers
from streamlet.processing.outputs import Output

_Record = tuple[bytes | None, int, int | None, Headers | None]


class Latest:
    """Holds back what one task writes to topics outside, until the end of a micro-batch.

    Records without a key replace nothing and are all kept.
    """

    def __init__(self) -> None:
        self._topics: dict[str, dict[tuple[bytes | None, int], _Record]] = {}
        self._keyless = 0

    def hold(self, outputs: Iterable[Output]) -> None:
        """Keep outputs, and of each key its last record only."""
        for output in outputs:
            held = self._topics.setdefault(output.topic, {})
            count = len(output.keys)
            partitions: list[int] | list[None] = output.partitions or [None] * count
            headers = output.headers or [None] * count
            columns = zip(output.values, output.timestamps, partitions, headers, strict=True)
            for key, record in zip(output.keys, columns, strict=True):
                if key is None:
                    self._keyless += 1
                place = (key, self._keyless if key is None else 0)
                held.pop(place, None)  # the record stands where its last one stood
                held[place] = record

    def outputs(self) -> list[Output]:
        """The outputs that are left, in the order of their records."""
        left = []
        for topic, held in self._topics.items():
            values, timestamps, partitions, headers = map(list, zip(*held.values(), strict=True))
            chosen = None if partitions[0] is None else partitions
            kept = headers if any(headers) else None
            keys = [key for key, _ in held]
            left.append(Output(topic, keys, values, timestamps, chosen, kept))
        return left
