"""Schemas that a registry has given, bounded in number and in the length of their texts."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

K = TypeVar("K")
V = TypeVar("V")

#: Values that are kept, and characters of the schemas that they are of, at most.
MOST_KEPT, MOST_CHARACTERS = 1_000, 32 << 20


@attrs.define(eq=False)
class Kept(Generic[K, V]):
    """Values by key; the oldest goes where they are too many, or their schemas too long.

    Any thread may use it: what another one keeps meanwhile is kept or asked for once more.
    """

    _values: dict[K, tuple[V, int]] = attrs.field(factory=dict, init=False)

    def get(self, key: K) -> V | None:
        """The value of a key; None: it is not kept."""
        found = self._values.get(key)
        return None if found is None else found[0]

    def keep(self, key: K, value: V, characters: int = 0) -> None:
        """Keep a value, however long it is; ``characters`` are those of its schema."""
        self._values.pop(key, None)
        kept = list(self._values.items())
        left, room = len(kept), MOST_CHARACTERS - characters - sum(one[1] for _, one in kept)
        for oldest, (_, its) in kept:
            if left < MOST_KEPT and room >= 0:
                break
            self._values.pop(oldest, None)
            left, room = left - 1, room + its
        self._values[key] = value, characters

    def drop(self, key: K) -> None:
        """Keep the value of a key no more, if it is kept."""
        self._values.pop(key, None)
