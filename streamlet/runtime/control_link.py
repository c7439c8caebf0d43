"""A member's end of the control topic: a thread that follows marks and publishes entries.

Nothing that runs waits for it, and nothing fails with it: while the broker is away it tries again,
and what was to be published is published later, the newest of each kind. If the thread itself
breaks the worker ends and is started again, since it would never be seen to leave. Reading goes
to a view that never changes, so any thread may look at it.

A member that leaves in peace removes its entries itself. For dead ones the leader does it, which
knows from the last rebalance which members there are: an entry about others has some time to be
about a member again (a worker that starts again), then it is removed.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from functools import partial

import attrs

from streamlet.assignor.values import GroupState, Leaving
from streamlet.clock import Clock
from streamlet.control.agreement import disagreement
from streamlet.control.changelog_types import unnoted
from streamlet.control.records import Place, place_of
from streamlet.control.topic import ControlTopic
from streamlet.control.values import (
    ChangelogTypes,
    Description,
    Endpoint,
    Entry,
    Mark,
    MemberKey,
    MemberProgress,
    Shutdown,
    StoreServer,
)
from streamlet.control.view import MOST_ENTRIES, ControlView
from streamlet.coordinator.events import Assigned, Lost, SessionEvent
from streamlet.errors import RefusedError, StreamletError
from streamlet.kafka.outage_lines import outage_lines
from streamlet.logs import get_logger

log = get_logger(__name__)

#: How long one look at the topic waits, and so how late something is published at most.
FOLLOW_MS = 50
#: How long a publication may take, and how long to rest after a failure.
FLUSH_MS = 5_000
RETRY_MS = 500
#: How long an entry is about no member before the leader removes it. A worker that fails over and
#: over is away for up to half a minute and still bound by its instance's mark.
MEMBER_GONE_MS = 15_000
INSTANCE_GONE_MS = 60_000
#: How often the leader looks whether a changelog was made again, or its ids cannot be had.
TYPES_MS = 300_000


@attrs.define(eq=False, slots=False)
class ControlLink:
    """Follows and publishes for one member; every thread may call the public methods.

    Args:
        member: our own key.
        name: the name of our instance.
        open_topic: opens the control topic, on the thread.
        clock: the time.
        leave_timeout_ms: ``scale.down.timeout.ms``, for marks without a deadline; None: never.
        on_leaving: called when our instance is marked, and when the mark is removed.
        reset: the last reset that our instance's state takes into account, as its folder notes it.
        shutdown: the last shutdown from before our instance started, likewise.
        types: the types of the rows in the changelogs, which the leader notes.
        description: of our topology, which the leader notes.
    """

    _member: MemberKey
    name: str
    _open_topic: Callable[[], ControlTopic]
    _clock: Clock
    _leave_timeout_ms: int | None
    _on_leaving: Callable[[Leaving | None], None]
    _reset: str = ""
    _shutdown_before: str = attrs.field(default="", alias="shutdown")
    _types: tuple[ChangelogTypes, ...] = ()
    _description: Description | None = None

    def __attrs_post_init__(self) -> None:
        #: What the topic said last.
        self.view = ControlView()
        #: All members as of the last rebalance if we lead, None if we do not.
        self._roster: frozenset[MemberKey] | None = None
        #: The last report of each member, also of those that removed it since the last rebalance.
        self._words: dict[MemberKey, _Word] = {}
        #: Of the last assignment, -1 before the first.
        self._generation = -1
        #: What other threads ask for, to be called on the thread.
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._was_read = threading.Event()
        self._thread = threading.Thread(target=self._run, name="streamlet-control", daemon=True)
        # The thread's own.
        self._topic: ControlTopic | None = None
        self._leaving: Leaving | None = None
        #: What is to be written: the newest entry of each place, None to remove it.
        self._pending: dict[Place, Entry | None] = {}
        #: What we wrote of ourselves; written again if it is removed while we live, and an address
        #: also if it is another by now.
        self._mine: dict[Place, Entry] = {}
        self._announcing: list[threading.Event] = []
        #: Entries about no member, and since when they have been.
        self._missing: dict[Place, int] = {}
        #: What the members' settings were compared by last, and what was wrong.
        self._compared: ControlView | None = None
        self._disagreement = ""
        #: When the types of changelogs are looked at again.
        self._types_at_ms = 0
        self._problem = ""  # what went wrong last, until all is well again
        #: What ended the thread, if it was not ``close``.
        self._broke: StreamletError | None = None

    def start(self) -> None:
        """Start the thread that reads the control topic."""
        self._thread.start()

    def wait_read(self, timeout_ms: int) -> bool:
        """Wait until all earlier entries are read; False if that takes too long."""
        return self._was_read.wait(timeout_ms / 1000)

    def check_reset(self, *, starting: bool = False) -> None:
        """Look whether the application was reset since our instance looked; from any thread.

        Raises:
            RefusedError: it was, or (``starting``) a reset is under way.
            StreamletError: the thread that follows the topic has ended: marks would not be seen.
        """
        if self._broke is not None:
            raise self._broke
        reset = self.view.reset
        if reset.pending is not None:
            if starting:
                raise RefusedError("a reset is under way, or was broken off; nothing was begun")
        elif reset.epoch and reset.text != self._reset:
            raise RefusedError(
                "the application was reset after this instance was started; start it again, and "
                "it discards the state from before"
            )

    @property
    def instance(self) -> str:
        """The process id of our instance."""
        return self._member.instance

    @property
    def shutdown(self) -> Shutdown | None:
        """The shutdown of the application since our instance was started; None: it is to run."""
        found = self.view.shutdown
        return None if found is None or found.text == self._shutdown_before else found

    def announce(self, entry: Shutdown, timeout_ms: int) -> bool:
        """Write a shutdown for all instances; False if it was not delivered in time."""
        done = threading.Event()
        self._orders.put(partial(self._announce, entry, done))
        return done.wait(timeout_ms / 1000)

    def publish(self, entry: MemberProgress | Endpoint | StoreServer) -> None:
        """Say this of ourselves, soon; it is removed when we close."""
        self._orders.put(partial(self._publish, entry))

    def mark(self, since_ms: int) -> None:
        """Write the drain request of our own instance soon, unless there is one."""
        mark = Mark(self._member.instance, since_ms, name=self.name)
        self._orders.put(partial(self._mark, mark))

    def take(self, event: SessionEvent) -> None:
        """Note the leader, and the generation of the assignment."""
        if isinstance(event, Lost) or (isinstance(event, Assigned) and not event.leader):
            self._roster = None
        if isinstance(event, Assigned):
            self._generation = event.generation
            self._words = _words(self.view)

    def last_members(self) -> dict[MemberKey, str]:
        """The members of the last generation and their names, as far as they reported it.

        Members that have left since are among them, although they removed their reports.
        """
        words = self._words
        generation = self._generation
        if generation < 0:  # we are new: those with the highest one were in it together
            generation = max((word.generation for word in words.values()), default=0)
        generation = max(generation, 0)  # a member that has not joined yet is in none
        return {key: word.member for key, word in words.items() if word.generation >= generation}

    def planned(self, group: GroupState) -> None:
        """Note the members that this leader plans for."""
        self._roster = frozenset(MemberKey(m.instance, m.number) for m in group.members)
        self._types_at_ms = 0

    @property
    def leads(self) -> bool:
        """True if our member made the group's last plan."""
        return self._roster is not None

    def close(self, timeout_ms: int = 3_000) -> None:
        """Remove this member's entries from the control topic and close, within a time limit."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout_ms / 1000)

    # The thread's.

    def _run(self) -> None:
        try:
            self._topic = self._open_topic()
            while not self._closing.is_set():
                self._guarded(self._round)
            self._take_orders()
            self._pending = dict.fromkeys(self._mine)
            self._guarded(self._write)
        except Exception as error:  # a bug of ours, which ends the worker
            log.exception("the control topic is not followed any more")
            self._broke = StreamletError(f"the thread at the control topic broke: {error!r}")
        finally:
            self._was_read.set()
            if self._topic is not None:
                self._topic.close()

    def _guarded(self, step: Callable[[ControlTopic], None]) -> None:
        assert self._topic is not None
        try:
            step(self._topic)
        except StreamletError as error:
            if str(error) != self._problem:  # an outage is said once
                self._problem = str(error)
                level = logging.DEBUG if outage_lines.away else logging.WARNING
                log.log(level, "the control topic waits: %s", error)
            self._was_read.clear()
            self._closing.wait(RETRY_MS / 1000)

    def _round(self, topic: ControlTopic) -> None:
        if not self._was_read.is_set():
            topic.prepare()
            topic.read()
            self._seen(topic.view)
            for place in topic.view.places_of(self._member):
                if place not in self._mine:  # of a process before us that did not end well
                    self._pending[place] = None
            self._was_read.set()
        self._take_orders()
        self._remove_gone(self._clock.now_ms())
        self._note_types(topic, self._clock.now_ms())
        self._note_description()
        self._write(topic)
        if topic.follow(FOLLOW_MS):
            self._seen(topic.view)
        self._compare()
        self._problem = ""

    def _seen(self, view: ControlView) -> None:
        """Act on the topic's new entries."""
        self.view = view
        gone = [(key, word) for key, word in self._words.items() if key not in view.progress]
        self._words = {**dict(gone[-MOST_ENTRIES:]), **_words(view)}
        for place, entry in self._mine.items():
            found = view.at(place)
            # The leader took us for dead, or others wrote over an address.
            if place not in self._pending and (
                found is None or (found != entry and not isinstance(entry, MemberProgress))
            ):
                self._pending[place] = entry
        leaving = self._as_leaving(view.marks.get(self._member.instance))
        if leaving != self._leaving:
            self._leaving = leaving
            self._on_leaving(leaving)

    def _as_leaving(self, mark: Mark | None) -> Leaving | None:
        if mark is None:
            return None
        deadline, timeout = mark.deadline_ms, self._leave_timeout_ms
        if deadline is None and timeout is not None and not mark.unlimited:
            deadline = mark.since_ms + timeout
        return Leaving(mark.since_ms, deadline, mark.successors)

    def _take_orders(self) -> None:
        while not self._orders.empty():
            self._orders.get()()

    def _announce(self, entry: Shutdown, done: threading.Event) -> None:
        self._pending[place_of(entry)] = entry
        self._announcing.append(done)

    def _publish(self, entry: MemberProgress | Endpoint | StoreServer) -> None:
        self._mine[place_of(entry)] = self._pending[place_of(entry)] = entry

    def _mark(self, mark: Mark) -> None:
        before = self.view.marks.get(mark.instance)
        if before is None or before.successors:  # ours waits for no other instance
            self._pending[place_of(mark)] = mark

    def _write(self, topic: ControlTopic) -> None:
        if not self._pending:
            return
        try:
            for place, entry in self._pending.items():
                if entry is None:
                    topic.remove(place)
                else:
                    topic.write(entry)
            topic.flush(FLUSH_MS)
        except StreamletError:
            topic.forget_unwritten()
            raise
        self._pending.clear()
        while self._announcing:
            self._announcing.pop().set()

    def _compare(self) -> None:
        """Log once, as the leader, that other members would plan otherwise."""
        roster = self._roster
        if roster is None or self._compared is self.view:
            return
        self._compared = self.view
        found = disagreement(self.view, self._member, roster)
        if found and found != self._disagreement:
            log.warning(
                "members differ in settings that the leader plans by, so plans will change when "
                "the lead does; we lead now: %s",
                found,
            )
        self._disagreement = found

    def _note_types(self, topic: ControlTopic, now_ms: int) -> None:
        """Note, as the leader, the types of changelogs of which that is not known.

        All members keep the same types. A changelog may be made again while they run.
        """
        if self._roster is None or not self._types or now_ms < self._types_at_ms:
            return
        self._types_at_ms = now_ms + TYPES_MS
        ids = topic.ids_of(one.changelog for one in self._types)
        self._pending |= {place_of(one): one for one in unnoted(self._types, self.view, ids)}

    def _note_description(self) -> None:
        """Note, as the leader, the topology that the group runs, if it is another than is noted."""
        ours, noted = self._description, self.view.description
        if self._roster is None or ours is None:
            return
        if noted is None or (noted.version, noted.topology) != (ours.version, ours.topology):
            self._pending.setdefault(place_of(ours), ours)

    def _remove_gone(self, now_ms: int) -> None:
        """Remove, as the leader, entries about members and instances that are gone for a while."""
        roster = self._roster
        if roster is None:
            self._missing.clear()
            return
        gone = _about_others(self.view, roster)
        self._missing = {place: self._missing.get(place, now_ms) for place in gone}
        for place, since_ms in self._missing.items():
            if now_ms - since_ms >= gone[place] and place not in self._pending:
                self._pending[place] = None


@attrs.frozen
class _Word:
    """The part of a member's last report that is kept when the member is gone."""

    member: str
    generation: int


def _words(view: ControlView) -> dict[MemberKey, _Word]:
    return {key: _Word(one.member, one.generation) for key, one in view.progress.items()}


def _about_others(view: ControlView, roster: frozenset[MemberKey]) -> dict[Place, int]:
    """The places of entries about other members, and how long each may stay, ms."""
    instances = {member.instance for member in roster}
    members = view.members() - roster
    places = {place: MEMBER_GONE_MS for key in members for place in view.places_of(key)}
    marks = sorted(view.marks.keys() - instances)
    return places | {(Mark, instance): INSTANCE_GONE_MS for instance in marks}
