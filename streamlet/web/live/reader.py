"""Reads an application for the live page, twice a second, while a browser shows it.

What a page shows grows old from the begin of its reading until the page has the next document. So a
reading may take half of the age that is allowed, however long the last one took, and each answer
says when to ask again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any

import attrs
import msgspec

from streamlet.admin.status_look import StatusLook
from streamlet.clock import Clock
from streamlet.closing import Closing
from streamlet.coordinator.transport import Transport
from streamlet.errors import BrokerError, StreamletError
from streamlet.kafka.ports import TopicInfo
from streamlet.logs import get_logger
from streamlet.types import TopicPartition
from streamlet.web.live.document import LiveDocument
from streamlet.web.live.values import DescribedTopology, LiveReading

log = get_logger(__name__)

#: How old what a page shows may become, if readings take less than half of it; what of that is for
#: the page, to ask and to draw; and the shortest pause between two readings, ms.
FRESH_MS = 1_000
PAGE_MS = 100
_PAUSE_MS = 50
#: How long a page that has not asked again counts as looked at, s.
UNASKED_S = 20.0
#: How often sizes and first offsets of changelogs are read, ms; they change slowly.
SIZES_MS = 5_000
#: How long brokers may take to tell sizes, ms.
_SIZES_WAIT_MS = 2_000
_FAREWELL_S = 1.0


@attrs.define(eq=False)
class LiveLook:
    """Reads one application: its status, and the sizes of its outputs and stores.

    Args:
        look: makes the status.
        topology: of the program, where it is known; else the group's own description counts.
        letters: topics of dead letters; None: not known.
    """

    look: StatusLook
    topology: DescribedTopology | None = None
    letters: frozenset[str] | None = None
    _starts: dict[TopicPartition, int] = attrs.field(factory=dict, init=False)
    _sizes: dict[TopicPartition, int] = attrs.field(factory=dict, init=False)
    _sizes_at_ms: int | None = attrs.field(default=None, init=False)
    #: The answer about sizes that is awaited; readings do not wait for it.
    _sizes_asked: Future[dict[TopicPartition, int]] | None = attrs.field(default=None, init=False)

    def read(self) -> LiveReading:
        """The next reading.

        Raises:
            NotFoundError: no such application.
            BrokerError: a broker does not answer, or will not tell.
        """
        window, found = self.look.window, self.look.read()
        seen, view, topology = found.seen, found.control, self.topology
        if topology is None and view.description is not None:
            topology = DescribedTopology.of(view.description.topology)
        topics = set(self.letters or ())
        if topology is not None:
            topics |= topology.counted_topics
        partitions = _partitions(found.topics, sorted(topics))
        ends = self._ends(partitions, seen.ends, view.read_committed)
        self._measure(window.transport, partitions)
        return LiveReading(
            *(window.clock.wall_ms(), found.status, seen, view, topology),
            *(dict(self._starts), ends, dict(self._sizes), self.letters),
        )

    def _ends(
        self,
        partitions: Sequence[TopicPartition],
        known: Mapping[TopicPartition, int],
        committed: bool | None,
    ) -> dict[TopicPartition, int]:
        """The ends of partitions; brokers are asked for those that the status has not."""
        found = {tp: known[tp] for tp in partitions if tp in known}
        left = [tp for tp in partitions if tp not in found]
        if left:
            found |= self.look.window.admin.readable_ends(left, read_committed=committed)
        return found

    def _measure(self, transport: Transport, partitions: Sequence[TopicPartition]) -> None:
        """Read first offsets, and ask brokers for sizes on their disks, now and then.

        Each broker is asked for sizes, and looks at its disks: a page that waited for it would grow
        old. They come with a later reading.
        """
        self._take_sizes()
        now_ms, last_ms = self.look.window.clock.now_ms(), self._sizes_at_ms
        missing = [tp for tp in partitions if tp not in self._starts]
        if last_ms is not None and now_ms - last_ms < SIZES_MS and not missing:
            return
        self._sizes_at_ms = now_ms
        self._starts = self.look.window.admin.start_offsets(partitions)
        topics: dict[str, list[int]] = {}
        for tp in partitions:
            topics.setdefault(tp.topic, []).append(tp.partition)
        if topics and self._sizes_asked is None:
            self._sizes_asked = transport.log_sizes(topics, _SIZES_WAIT_MS)

    def _take_sizes(self) -> None:
        """Take the sizes that were asked for, if they are there."""
        if self._sizes_asked is None or not self._sizes_asked.done():
            return
        try:
            self._sizes = self._sizes_asked.result()
        except BrokerError as error:
            log.debug("the brokers do not tell how large topics are: %s", error)
            self._sizes = {}
        self._sizes_asked = None


def period_ms(took_ms: int, fresh_ms: int = FRESH_MS) -> int:
    """The time from the begin of a reading, which took so long, to that of the next one.

    If none takes longer than that, what a page shows is ``fresh_ms`` old at most. Readings that
    began later where the last one was short left no room for one that a busy machine makes longer.
    """
    return max(took_ms + _PAUSE_MS, (fresh_ms - PAGE_MS) // 2)


def live_status(look: StatusLook) -> StatusLook:
    """The same look with what the page needs: it shows rebalances, and waits for none."""
    return attrs.evolve(look, history=None, settle_ms=0)


def _partitions(there: Mapping[str, TopicInfo], topics: Sequence[str]) -> list[TopicPartition]:
    return [
        TopicPartition(topic, number)
        for topic in topics
        if topic in there
        for number in range(there[topic].partitions)
    ]


@attrs.define(eq=False)
class LiveReader(Closing):
    """Keeps the newest document while pages ask for it; a thread that else does nothing.

    Args:
        opened: opens what reads the application, for as long as pages ask.
        clock: the time.
        fresh_ms: how old what a page shows may become.
        simulator: whether the server of the page plays scenarios.
    """

    _opened: Callable[[], AbstractContextManager[LiveLook]]
    _clock: Clock
    _fresh_ms: int = FRESH_MS
    _simulator: bool = False
    _document: LiveDocument = attrs.field(factory=LiveDocument, init=False)
    _closing: threading.Event = attrs.field(factory=threading.Event, init=False)
    _asked: threading.Event = attrs.field(factory=threading.Event, init=False)
    _asked_ms: int = attrs.field(default=0, init=False)
    #: The newest document as JSON, when it was read, and when the next one is due; None before
    #: the first.
    _newest: tuple[bytes, int, int] | None = attrs.field(default=None, init=False)
    _problem: str | None = attrs.field(default=None, init=False)
    _thread: threading.Thread | None = attrs.field(default=None, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def newest(self) -> bytes | None:
        """The newest answer: the document, its age, when to ask again, why there is none newer."""
        self._asked_ms = self._clock.now_ms()
        self._asked.set()
        with self._lock:
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(
                    target=self._run, name="streamlet-live", daemon=True
                )
                self._thread.start()
        found, problem = self._newest, self._problem
        if found is None and problem is None:
            return None
        now_ms = self._clock.now_ms()  # the document may have come meanwhile
        document, read_ms, due_ms = found or (b"null", now_ms, now_ms + self._fresh_ms)
        facts = {"problem": problem, "simulator": self._simulator}
        return answer_json(document, now_ms - read_ms, max(0, due_ms - now_ms), facts)

    def close(self) -> None:
        """End the thread, without waiting for a broker that does not answer."""
        self._closing.set()
        self._asked.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(_FAREWELL_S)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._asked.wait()
            if self._closing.is_set():
                return
            try:
                with self._opened() as look:
                    self._follow(look)
            except StreamletError as error:
                self._problem = str(error)
            except Exception as error:
                log.exception("the live page cannot be read")
                self._problem = f"an internal error, {type(error).__name__}; see the log"
            if not self._is_asked:
                self._rest()
            self._closing.wait(self._fresh_ms / 1_000)

    @property
    def _is_asked(self) -> bool:
        """True if a page has asked of late."""
        return self._clock.now_ms() - self._asked_ms <= UNASKED_S * 1_000

    def _rest(self) -> None:
        """Read nothing until a page asks, which gets a new document."""
        self._asked.clear()
        self._newest = self._problem = None

    def _follow(self, look: LiveLook) -> None:
        """Read until no page has asked for a while."""
        look.look.window.stopped = self._closing
        while not self._closing.is_set():
            if not self._is_asked:
                self._rest()
                return
            began_ms = self._clock.now_ms()
            found = document_json(self._document.of(look.read()))
            took_ms = self._clock.now_ms() - began_ms
            period = period_ms(took_ms, self._fresh_ms)
            self._newest = found, began_ms, began_ms + period + took_ms
            self._problem = None
            self._closing.wait((period - took_ms) / 1_000)


def document_json(document: dict[str, Any]) -> bytes:
    """A document as JSON."""
    return msgspec.json.encode(document)


def answer_json(document: bytes, age_ms: int, next_ms: int, facts: Mapping[str, Any]) -> bytes:
    """The answer to a page; ``next_ms`` is in how long the next document is due.

    ``facts`` are why there is no newer document (``problem``), and whether scenarios are played.
    """
    found = {"age_ms": age_ms, "next_ms": next_ms, **facts}
    return msgspec.json.encode({**found, "document": msgspec.Raw(document)})
