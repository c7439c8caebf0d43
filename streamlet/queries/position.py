"""Positions of stores in their input: Kafka Streams' ``Position`` and ``PositionBound``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import calls_told_by_form
from streamlet.bounded import offsets_by_topic, offsets_of
from streamlet.errors import WrongTypeError
from streamlet.types import TopicPartition
from streamlet.user_code import shown


@explains_misuse
@calls_told_by_form
@attrs.frozen
class Position:
    """Per input partition the offset behind the last record that an answer contains.

    It is what consumers commit: the offset of the next record. Partitions that are not in it are
    unknown.
    """

    offsets: Mapping[TopicPartition, int] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.offsets, Mapping) or not all(map(_is_offset, self.offsets.items())):
            raise WrongTypeError(
                "Position(offsets=) expects a dict of offsets by TopicPartition, got "
                f"{shown(self.offsets)}; a position as JSON is read by Position.from_json()"
            )

    def merged(self, other: Position) -> Position:
        """The later of both in each partition: what a reader has seen of two answers."""
        found = dict(self.offsets)
        for tp, offset in other.offsets.items():
            found[tp] = max(offset, found.get(tp, 0))
        return Position(found)

    def missing(self, bound: Position, inputs: Iterable[TopicPartition]) -> str:
        """Describe what it lacks of a bound in some partitions; empty: nothing."""
        short = [
            f"{tp} at {self.offsets.get(tp, 0)} of {bound.offsets[tp]}"
            for tp in sorted(inputs)
            if self.offsets.get(tp, 0) < bound.offsets.get(tp, 0)
        ]
        return ", ".join(short)

    def to_json(self) -> dict[str, dict[str, int]]:
        """Offsets by topic and partition, as JSON has them."""
        return offsets_by_topic(self.offsets)

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Read what ``to_json`` made.

        Raises:
            ValueError: it is something else.
        """
        try:
            return cls(offsets_of(document))
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"no position: {error}") from error


def _is_offset(entry: tuple[Any, Any]) -> bool:
    return isinstance(entry[0], TopicPartition) and type(entry[1]) is int


@explains_misuse
@calls_told_by_form
@attrs.frozen
class PositionBound:
    """The position that an answer has to contain at least."""

    position: Position = attrs.field(factory=Position)

    @classmethod
    def at(cls, position: Position) -> Self:
        """Answers that contain this position."""
        return cls(position)

    @classmethod
    def unbounded(cls) -> Self:
        """Any answer."""
        return cls()
