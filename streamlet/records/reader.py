"""Reads the records of one topic, up to the ends of now or on and on; commits nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import attrs

from streamlet.clock import Clock, moment
from streamlet.errors import ConfigError
from streamlet.kafka.ports import Admin, PartitionBatch, RecordSource
from streamlet.kafka.reading import poll_on, read_until
from streamlet.origins import RepeatFilter
from streamlet.types import TopicPartition

#: How many records a poll returns at most, and how long it waits for more to come.
_RECORDS, _IDLE_MS = 1_000, 200
#: Digits of an offset: as many as the highest one has.
_MOST_DIGITS = 19

Positions = dict[TopicPartition, int]


@attrs.frozen
class ReadFrom:
    """The start in each partition: ``earliest``, ``latest``, an offset, or a time."""

    where: str
    offset: int | None = None
    at_ms: int | None = None  # wall-clock

    @classmethod
    def of(cls, text: str) -> ReadFrom:
        """Read it from text; a time without an offset from UTC is in UTC, as Kafka has it.

        Raises:
            ConfigError: it is none of them.
        """
        if text in ("earliest", "latest"):
            return cls(text)
        if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
            return cls(text, offset=int(text))
        try:
            at_ms = int(moment(text).timestamp() * 1000)
        except ValueError as error:
            raise ConfigError(
                [
                    f"--from {text}: expected earliest, latest, an offset, or a time such as "
                    "2026-01-31T12:00:00"
                ]
            ) from error
        if at_ms < 0:
            raise ConfigError([f"--from {text}: records have times from 1970 on"])
        return cls(text, at_ms=at_ms)

    def positions(self, admin: Admin, ends: Mapping[TopicPartition, int]) -> Positions:
        """The first offset to read of each partition; one that was deleted is no place to begin."""
        partitions = list(ends)
        if self.where == "latest":
            return dict(ends)
        starts = admin.start_offsets(partitions)
        if self.offset is not None:
            return {tp: min(max(self.offset, starts[tp]), ends[tp]) for tp in partitions}
        if self.at_ms is not None:
            return admin.offsets_at(partitions, self.at_ms)
        return starts


@attrs.define
class TopicReader:
    """Reads partitions from given positions.

    Args:
        source: a consumer with nothing assigned.
        admin: asked where a partition begins whose records were deleted meanwhile.
        clock: the time.
    """

    source: RecordSource
    admin: Admin
    clock: Clock

    def until(
        self, ends: Mapping[TopicPartition, int], positions: Positions
    ) -> Iterator[PartitionBatch]:
        """The records below ``ends``.

        Raises:
            TimedOutError: records that are there do not come.
        """
        return read_until(
            *(self.source, ends),
            begins=positions,
            clock=self.clock,
            most=_RECORDS,
            admin=self.admin,
        )

    def following(
        self, positions: Positions, stopped: Callable[[], bool]
    ) -> Iterator[PartitionBatch]:
        """All records from these positions on, until ``stopped``."""
        if positions:
            self.source.assign(positions)
        while not stopped():
            yield from poll_on(self.source, _RECORDS, _IDLE_MS, self.admin)


def new_records(
    batches: Iterable[PartitionBatch], repeats: RepeatFilter
) -> Iterator[PartitionBatch]:
    """The records of batches that repeat no other."""
    for batch in batches:
        yield _new(batch, repeats)


def _new(batch: PartitionBatch, repeats: RepeatFilter) -> PartitionBatch:
    headers = batch.headers or [None] * len(batch)
    keep = [
        repeats.takes(batch.topic, batch.partition, offset, own)
        for offset, own in zip(batch.offsets, headers, strict=True)
    ]
    return batch.select(keep)
