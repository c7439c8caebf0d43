"""Aggregates of some records of one task, on their way to Spark's aggregation of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, starmap
from operator import le
from typing import Any

from streamlet.errors import StateError
from streamlet.spark.plan.folds import Fold, Slot


class Partial:
    """Per key the aggregates of a fold, and the newest time of its records.

    Whole numbers are Python's here: nothing is lost before Spark gets them.
    """

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self.times: dict[bytes, int] = {}
        self._latest = -1
        self._columns: list[dict[bytes, Any]] = [
            Counter() if slot.kind == "count" else {} for slot in fold
        ]

    def __len__(self) -> int:
        return len(self.times)

    def add(
        self, keys: Sequence[bytes], times: Sequence[int], columns: Sequence[Sequence[Any]]
    ) -> None:
        """Add records: of each slot the values, where it has any.

        Raises:
            StateError: a value is not of the type that it was declared to have.
        """
        for slot, values in zip(self._fold, columns, strict=True):
            self._check(slot, values)
        self._newest(keys, times)
        for slot, column, values in zip(self._fold, self._columns, columns, strict=True):
            if isinstance(column, Counter):
                column.update(keys)
            elif slot.kind == "sum":
                _add(column, keys, values)
            else:
                _better(column, keys, values, least=slot.kind == "min")

    def columns(self) -> list[list[Any]]:
        """The values of each slot, in the order of ``times``."""
        return [[column[key] for key in self.times] for column in self._columns]

    def _check(self, slot: Slot, values: Sequence[Any]) -> None:
        strange = set(map(type, values)) - {slot.values, type(None)}
        if slot.of is not None and strange:
            raise StateError(
                f"{self._fold.node.name}: expected {slot.values.__name__}, as declared, and got "
                f"{strange.pop().__name__}, with which Spark SQL does not do as Python does: take "
                "a new checkpoint and aggregations='tasks'"
            )

    def _newest(self, keys: Sequence[bytes], times: Sequence[int]) -> None:
        if times and times[0] >= self._latest and all(starmap(le, pairwise(times))):
            self.times.update(zip(keys, times, strict=True))
        else:
            get = self.times.get
            for key, time in zip(keys, times, strict=True):
                if time > get(key, -1):
                    self.times[key] = time
        self._latest = max(self._latest, max(times, default=-1))


def _add(sums: dict[bytes, int], keys: Sequence[bytes], values: Sequence[int | None]) -> None:
    get = sums.get
    for key, value in zip(keys, values, strict=True):
        sums[key] = get(key, 0) + (value or 0)


def _better(
    found: dict[bytes, Any], keys: Sequence[bytes], values: Sequence[Any], *, least: bool
) -> None:
    get = found.get
    for key, value in zip(keys, values, strict=True):
        so_far = get(key)
        if so_far is None or (value is not None and (value < so_far if least else value > so_far)):
            found[key] = value
