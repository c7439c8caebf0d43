"""The positions that an application is to go on from, as Kafka's reset tools specify them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Self

import attrs

from streamlet.bounded import INT32_MAX, INT64_MAX, whole
from streamlet.clock import moment
from streamlet.config.values import duration
from streamlet.errors import ConfigError
from streamlet.given_files import bytes_of
from streamlet.kafka.ports import Admin
from streamlet.types import TopicPartition
from streamlet.user_code import listed, shown

EARLIEST, LATEST = "earliest", "latest"

_ISO = re.compile(r"P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?)?", re.I)
#: Lines of a file that are told of when they are wrong.
_MOST_PROBLEMS = 20
_SECONDS = (86_400, 3_600, 60, 1)


@attrs.frozen
class StartPosition:
    """The position an application starts again from.

    ``where`` is it as text. One of the others says it where that is neither ``earliest`` nor
    ``latest``: a time, ms; one offset for each partition; how many records to go on (or back) from
    the committed position; or an offset for each of some partitions. ``topics``, where there are
    any, are those that it is for; the position in others stays.
    """

    where: str
    at_ms: int | None = None
    offset: int | None = None
    shift: int | None = None
    exact: Mapping[TopicPartition, int] | None = None
    topics: tuple[str, ...] = ()

    @classmethod
    def of(cls, to: str | datetime, option: str = "--to") -> Self:
        """Read a place or a time; one without an offset from UTC is in UTC, as Kafka has it.

        Raises:
            ConfigError: it is neither; ``option`` is in the message.
        """
        if to in (EARLIEST, LATEST):
            return cls(str(to))
        try:
            at = moment(to.isoformat() if isinstance(to, datetime) else to)
        except ValueError as error:
            raise ConfigError(
                [f"{option} {to}: expected earliest, latest, or a time such as 2026-01-31T12:00:00"]
            ) from error
        at_ms = int(at.timestamp() * 1000)
        if at_ms < 0:
            raise ConfigError([f"{option} {to}: records have times from 1970 on"])
        return cls(at.isoformat(timespec="milliseconds"), at_ms)

    @classmethod
    def before_now(cls, by: str, now_ms: int) -> Self:
        """The time a duration before now: ``90s``, ``2h``, or as Kafka's tools have it, ``PT2H``.

        Raises:
            ConfigError: it is no duration.
        """
        return cls(f"{by} ago", max(now_ms - _duration_ms(by), 0))

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """The offsets in a file with lines of ``topic,partition,offset``, as Kafka's tools have it.

        Raises:
            ConfigError: the file cannot be read, or a line is none.
        """
        try:
            text = bytes_of(path).decode("utf-8-sig")
        except (OSError, UnicodeError) as error:
            raise ConfigError([f"--from-file {path}: {error}"]) from error
        exact: dict[TopicPartition, int] = {}
        problems: list[str] = []
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                partition, offset = _line(line)
                if partition in exact:
                    raise ValueError(f"{partition.topic}-{partition.partition} is there twice")
                exact[partition] = offset
            except ValueError as error:
                problems.append(f"--from-file {path}, line {number}: {error}")
                if len(problems) == _MOST_PROBLEMS:
                    break
        if problems:
            raise ConfigError(problems)
        if not exact:
            raise ConfigError([f"--from-file {path}: there is no line topic,partition,offset"])
        return cls(f"the offsets in {path}", exact=exact)

    def positions(
        self,
        admin: Admin,
        partitions: Sequence[TopicPartition],
        before: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """The offset to go on from in each partition, within what its log holds.

        Args:
            admin: knows the logs.
            partitions: all that the application reads.
            before: the committed positions; of a partition without one it is the start of its log.

        Raises:
            ConfigError: a topic or partition that is named is none of these.
            BrokerError: the broker does not answer, or refuses.
        """
        self._check_read(partitions)
        starts = admin.start_offsets(partitions)
        stays = {tp: before.get(tp, starts[tp]) for tp in partitions}
        meant = [tp for tp in partitions if not self.topics or tp.topic in self.topics]
        if self.at_ms is not None:
            return stays | dict(admin.offsets_at(meant, self.at_ms))
        if self.where == EARLIEST:
            return stays | {tp: starts[tp] for tp in meant}
        ends = admin.readable_ends(meant)
        if self.where == LATEST:
            return stays | dict(ends)
        wanted = {tp: self._wanted(tp, stays[tp]) for tp in meant}
        return stays | {tp: min(max(at, starts[tp]), ends[tp]) for tp, at in wanted.items()}

    def _wanted(self, partition: TopicPartition, stays: int) -> int:
        if self.offset is not None:
            return self.offset
        if self.shift is not None:
            return stays + self.shift
        assert self.exact is not None, self
        return self.exact.get(partition, stays)

    def _check_read(self, partitions: Sequence[TopicPartition]) -> None:
        read = {tp.topic for tp in partitions}
        problems = [f"--topic {one}: it is not read" for one in self.topics if one not in read]
        there = set(partitions)
        problems += [
            f"{self.where}: {tp.topic}-{tp.partition} is not read"
            for tp in self.exact or ()
            if tp not in there
        ]
        if problems:
            raise ConfigError([*problems[:20], f"read are: {listed(sorted(read))}"])


def _duration_ms(text: str) -> int:
    if (found := _ISO.fullmatch(text)) and any(found.groups()):
        return 1000 * sum(int(n or 0) * s for n, s in zip(found.groups(), _SECONDS, strict=True))
    try:
        return duration().parse(text)
    except ValueError as error:
        raise ConfigError([f"--by-duration {text}: {error}, or PT2H30M"]) from error


def _line(line: str) -> tuple[TopicPartition, int]:
    words = [word.strip() for word in line.split(",")]
    if len(words) != 3 or not words[0]:
        raise ValueError("expected topic,partition,offset")
    if not (_is_number(words[1]) and _is_number(words[2])):
        raise ValueError(f"partition and offset are numbers, not {shown(line)}")
    partition = whole(int(words[1]), 0, INT32_MAX)
    return TopicPartition(words[0], partition), whole(int(words[2]), 0, INT64_MAX)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 20
