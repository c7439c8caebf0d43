"""The topics that a plain consumer reads: their partitions, and whether they were made again.

Kafka gives each topic an id. One that is deleted and made again has another, and the positions of
the old one mean nothing in it: its records are read from the first one. A broker deletes committed
positions with their topic, but a consumer that has not noticed may commit after that. So each
position is committed with the id of its topic, as a text beside it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from streamlet.clock import Clock
from streamlet.coordinator.messages import Committed
from streamlet.errors import BrokerError, MissingTopicError, NotFoundError, StreamletError
from streamlet.kafka.ports import Admin
from streamlet.logs import get_logger
from streamlet.retries import Retries
from streamlet.types import TopicPartition
from streamlet.user_code import listed


def first_offsets(
    admin: Admin, partitions: Sequence[TopicPartition], policy: str, counts: Mapping[str, int]
) -> dict[TopicPartition, int]:
    """The offsets to begin at under ``earliest`` or ``latest``.

    A partition that was added while the consumer ran begins at its first record under ``latest``
    too: its records came after the consumer.

    Args:
        admin: knows where partitions begin and end.
        partitions: those without a committed position.
        policy: ``auto.offset.reset``.
        counts: partitions of each topic when the consumer began.

    Raises:
        BrokerError: the broker does not answer.
    """
    ends = [
        tp for tp in partitions if policy == "latest" and tp.partition < counts.get(tp.topic, 0)
    ]
    starts = [tp for tp in partitions if tp not in ends]
    found = admin.readable_ends(ends) if ends else {}
    return {**found, **(admin.start_offsets(starts) if starts else {})}


log = get_logger(__name__)

#: How the text beside a position begins; the topic's id follows.
_TEXT = "topic.id="
_ASK_PAUSE_MS = 200
#: How long the thread that polls asks again when the broker does not answer.
_PATIENCE_MS = 15_000

T = TypeVar("T")


def text_of(topic_id: str | None) -> str:
    """The text beside a position in the topic with this id."""
    return f"{_TEXT}{topic_id}" if topic_id else ""


def is_of(committed: Committed, topic_id: str | None) -> bool:
    """True unless the position was committed in a topic with another id."""
    text = committed.metadata.rstrip("\0")
    return not topic_id or not text.startswith(_TEXT) or text == text_of(topic_id)


class ConsumerTopics:
    """Follows the topics of a plain consumer; any thread may ask.

    Args:
        names: of the topics.
        admin: knows them.
        policy: ``auto.offset.reset``.
        group_id: the group's name, for messages.
        clock: the time.
    """

    def __init__(
        self, names: Collection[str], admin: Admin, policy: str, group_id: str, clock: Clock
    ) -> None:
        self._names, self._admin = tuple(names), admin
        self._policy, self._group_id, self._clock = policy, group_id, clock
        #: Set once the consumer is closed.
        self.closed = threading.Event()
        #: Ids at the last look, another mapping each time that one has changed.
        self.ids: Mapping[str, str] = {}
        self._lock = threading.Lock()
        #: Partitions when the consumer began, of topics that were not made again since.
        self._counts: dict[str, int] = {}

    def begin(self) -> None:
        """Count partitions for the first time.

        Raises:
            MissingTopicError: a topic does not exist.
            BrokerError: the broker does not answer.
        """
        found = self._ask(lambda: self.counts(self._names))
        missing = sorted(set(self._names) - found.keys())
        if missing:
            raise MissingTopicError(f"no such topic: {listed(missing)}", hidden=missing)
        self._counts = found

    def counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Partitions of those of these topics that exist.

        Raises:
            BrokerError: the broker does not answer.
        """
        known = self._admin.topics()
        return {topic: known[topic].partitions for topic in topics if topic in known}

    def look(self) -> Mapping[str, str]:
        """The ids of the topics now, of one that is gone the last one.

        Raises:
            BrokerError: the broker does not answer.
        """
        with self._lock:  # else an older answer might replace a newer one
            found = {**self.ids, **self._admin.topic_ids(self._names)}
            if found != self.ids:
                for topic in self.ids.keys() & found.keys():
                    if self.ids[topic] != found[topic]:
                        self._counts.pop(topic, None)
                self.ids = found
            return self.ids

    def placed(
        self, partitions: Collection[TopicPartition], committed: Mapping[TopicPartition, Committed]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], Mapping[str, str]]:
        """The offsets at which to begin, those of them that are committed, and the topics' ids.

        Raises:
            NotFoundError: a partition has no position, and ``auto.offset.reset`` is none.
            BrokerError: the broker does not answer.
        """
        ids = self._ask(self.look)
        found = {tp: committed[tp] for tp in partitions if committed[tp].offset >= 0}
        known = {tp: at.offset for tp, at in found.items() if is_of(at, ids.get(tp.topic))}
        stale = sorted(found.keys() - known.keys())
        for tp in stale:
            log.warning(
                "%s was deleted and made again since position %d was committed: it is read from "
                "its first record",
                *(tp, found[tp].offset),
            )
        starts = self._ask(lambda: first_offsets(self._admin, stale, "earliest", {}))
        rest = [tp for tp in partitions if tp not in found]
        return {**known, **starts, **self._first(rest)}, known, ids

    def _first(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets of partitions without a committed position."""
        unplaced = [tp for tp in partitions if tp.topic in self._counts]
        if self._policy == "none" and unplaced:
            names = ", ".join(map(str, unplaced))
            raise NotFoundError(
                f"group {self._group_id} has no committed position of {names},"
                " and auto.offset.reset is none"
            )
        return self._ask(lambda: first_offsets(self._admin, partitions, self._policy, self._counts))

    def _ask(self, question: Callable[[], T]) -> T:
        """Ask a broker that may be busy; not for the control thread."""
        tries = Retries(_ASK_PAUSE_MS, _ASK_PAUSE_MS, clock=self._clock, limit_ms=_PATIENCE_MS)
        return tries.until_done(
            question,
            wait=self.closed.wait,
            failed=lambda error: log.info("asking again: %s", error),
            passes=lambda error: isinstance(error, BrokerError),
        )

    def watch(
        self,
        every_ms: int,
        planned_for: Callable[[], Mapping[str, int]],
        rejoin: Callable[[str], None],
    ) -> None:
        """Look now and then until the consumer is closed; a thread of its own.

        Args:
            every_ms: how often.
            planned_for: partitions of each topic in the plan that we made, none if we do not lead.
            rejoin: called when a topic has others.
        """
        while not self.closed.wait(every_ms / 1000):
            try:
                self.look()
                planned = dict(planned_for())
                found = self.counts(planned) if planned else planned
            except StreamletError as error:
                log.warning("looking at topics: %s", error)
                continue
            if found != planned:
                rejoin(f"partitions have changed: {planned} -> {found}")
