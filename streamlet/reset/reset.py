"""Plans a reset and carries it out.

The order makes it safe to be broken off anywhere. First the control topic says that a reset is
under way, with all a second attempt needs; from then on no instance starts. Then the internal
topics are deleted and made again, then the positions are set, which the coordinator takes of an
outsider only while the group is empty. When the entry says that it is over, each instance that
starts discards the state on its disk, because that notes another reset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

import attrs

from streamlet.admin.applications import check_known
from streamlet.admin.window import GroupWindow
from streamlet.control.records import Place
from streamlet.control.values import ChangelogTypes, Mark, ResetEpoch
from streamlet.control.view import ControlView
from streamlet.coordinator.codes import name_of
from streamlet.coordinator.messages import Committed, OffsetCommit, OffsetCommitAnswer
from streamlet.coordinator.ports import TransportError
from streamlet.errors import (
    BrokerError,
    ConfigError,
    MissingRightError,
    MissingTopicError,
    RefusedError,
)
from streamlet.kafka.ports import TopicInfo
from streamlet.reset.own_topics import InternalTopicFinder, InternalTopics
from streamlet.reset.plan import (
    PositionReset,
    ResetPlan,
    highest_epoch,
    next_incarnation,
)
from streamlet.reset.removal import (
    TopicRemoval,
    check_stopped,
    member_names,
    remove_members,
)
from streamlet.reset.start import StartPosition
from streamlet.reset.waiting import Progress, silent
from streamlet.rights import GROUP_REFUSED, TOPIC_REFUSED, Right, missing, on_topics
from streamlet.scaling.command_lock import command_lock
from streamlet.topology.internal_topics import known_settings
from streamlet.types import TopicPartition
from streamlet.user_code import listed

_REQUEST_MS = 10_000
_PARTITIONS_AT_ONCE = 5_000

#: The coordinator knows members: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.
_MEMBERS = frozenset({22, 25, 27})
#: It is moving or loading; or a broker does not know a topic yet that was just made.
_PASSING = frozenset({3, 14, 15, 16})


@attrs.frozen
class Reset:
    """Sets one application back to a start.

    Args:
        window: on it.
        start: where it is to begin.
        progress: given the progress of each step at each look at the brokers.
        force: take members out of the group first; those that are alive come back, and it is
            refused.
    """

    window: GroupWindow
    start: StartPosition
    progress: Progress = silent
    force: bool = False

    def plan(self) -> ResetPlan:
        """Plan the reset; nothing is changed.

        Raises:
            NotFoundError: no such application.
            MissingTopicError: a source topic is missing, or may not be seen.
            RefusedError: it is running.
            ConfigError: its source topics are not known.
            BrokerError: the broker does not answer, or refuses.
        """
        control = self.window.control
        topics = self.window.admin.topics()
        check_known(self.window, topics)
        if not self.force:
            check_stopped(self.window)
        return self._plan(topics, control.read())

    def carry_out(self) -> ResetPlan:
        """Do it; when this returns everything in the plan has happened.

        Raises:
            RefusedError: it is running, or another command is running.
            DeletionDisabledError: the brokers delete no topics; nothing was changed.
            TimedOutError: brokers took too long; the same command again goes on.
            BrokerError: the broker does not answer, or refuses.
            KeyboardInterrupt: stopped before anything was changed.
        """
        with self._command_lock():
            plan = self._emptied()
            self._finish(plan, plan.positions())
        return plan

    def empty(self) -> tuple[ResetPlan, dict[str, str]]:
        """Do all but set positions; raises as ``carry_out``.

        Until ``finish`` no instance starts, and a reset may be begun again.

        Returns:
            What was planned, and the ids of the internal topics, which are empty now.
        """
        with self._command_lock():
            plan = self._emptied()
            return plan, self._ids(plan)

    def finish(
        self,
        plan: ResetPlan,
        ids: Mapping[str, str],
        positions: Mapping[TopicPartition, tuple[int, str]],
        filled: Iterable[str] = (),
        types: Iterable[ChangelogTypes] = (),
    ) -> None:
        """Set positions once the emptied topics are filled; raises as ``carry_out``.

        ``filled`` are the topics in whose place files were read, ``types`` those of the rows that
        the internal topics were filled with.

        Raises:
            RefusedError: another command has ended or begun it again meanwhile.
        """
        with self._command_lock():
            reset = self.window.control.view.reset
            if reset.pending is None or reset.epoch != plan.epoch or self._ids(plan) != ids:
                raise RefusedError(
                    f"{self._name} was reset by another command meanwhile; no position is set"
                )
            check_stopped(self.window)
            self._finish(plan, positions, tuple(filled), types)

    def _command_lock(self) -> AbstractContextManager[None]:
        return command_lock(self.window, f"reset of {self._name}")

    def _emptied(self) -> ResetPlan:
        """Make the internal topics again, empty, in our turn."""
        window, control = self.window, self.window.control
        if self.force:
            remove_members(window)
        check_stopped(window)  # the operator may have been asked for long
        before = control.view.reset
        plan = self._plan(window.admin.topics(), control.view)
        old = self._ids(plan)
        self._removal.delete(before, plan.entry, old)
        self._create(plan, old)
        return plan

    def _finish(
        self,
        plan: ResetPlan,
        positions: Mapping[TopicPartition, tuple[int, str]],
        filled: tuple[str, ...] = (),
        types: Iterable[ChangelogTypes] = (),
    ) -> None:
        """Set positions and let instances start again, in our turn."""
        control = self.window.control
        self._commit(positions)
        control.remove(*_left_behind(control.view))
        reset = ResetEpoch(plan.epoch, self.window.clock.wall_ms(), filled=filled)
        control.write(*types, reset)
        control.flush()

    # The plan.

    @property
    def _name(self) -> str:
        return self.window.name

    @property
    def _removal(self) -> TopicRemoval:
        return TopicRemoval(self.window, self.progress)

    def _plan(self, topics: Mapping[str, TopicInfo], view: ControlView) -> ResetPlan:
        committed = self.window.committed()
        pending = view.reset.pending
        if self.window.application.topology is not None:
            check_there(self.window.application.topology.source_topics, topics)
        own = InternalTopicFinder(self.window).find(topics, committed, pending or ())
        sources = self._sources(topics, committed, view.reset, own)
        return ResetPlan(
            application=self._name,
            start=self.start,
            epoch=view.reset.next_epoch if pending is None else view.reset.epoch,
            highest_epoch=highest_epoch(committed),
            incarnation=next_incarnation(committed),
            moves=self._moves(topics, sources, committed, view.reset),
            recreated=own.recreated,
            removed=own.removed,
            unfinished=pending is not None,
            left=own.left,
            members=member_names(self.window) if self.force else (),
        )

    def _sources(
        self,
        topics: Mapping[str, TopicInfo],
        committed: Iterable[TopicPartition],
        before: ResetEpoch,
        own: InternalTopics,
    ) -> list[str]:
        topology = self.window.application.topology
        if topology is not None:
            sources = list(topology.source_topics_among(topics))
        else:
            read = {tp.topic for tp in committed} | set(before.sources)
            sources = sorted(read.difference(topic.name for topic in own.recreated))
            if not sources:
                raise ConfigError(
                    [
                        f"which topics {self._name} reads is not known: it has no committed "
                        "positions, or only of topics that this user may not READ; give "
                        "module:attribute in place of the id"
                    ]
                )
        check_there(sources, topics)
        return sources

    def _moves(
        self,
        topics: Mapping[str, TopicInfo],
        sources: Sequence[str],
        committed: Mapping[TopicPartition, Committed],
        before: ResetEpoch,
    ) -> tuple[PositionReset, ...]:
        partitions = [
            TopicPartition(topic, number)
            for topic in sources
            for number in range(topics[topic].partitions)
        ]
        noted = {TopicPartition(topic, number): at for topic, number, at in before.positions}
        found = {tp: one.offset for tp, one in committed.items()} | noted
        known = {tp: at for tp, at in found.items() if at >= 0}
        after = self.start.positions(self.window.admin, partitions, known)
        return tuple(PositionReset(tp, known.get(tp, -1), after[tp]) for tp in partitions)

    # Carrying it out.

    def _ids(self, plan: ResetPlan) -> dict[str, str]:
        """The internal topics there are, with their ids."""
        return self._removal.ids([*(topic.name for topic in plan.recreated), *plan.removed])

    def _create(self, plan: ResetPlan, old: Mapping[str, str]) -> None:
        admin = self.window.admin
        names = [topic.name for topic in plan.recreated]

        def new() -> int:
            existing = admin.topic_settings(sorted(admin.topics())[:1])
            admin.create_topics(known_settings(plan.recreated, existing))
            ids, before = admin.topic_ids(names), set(old.values())
            return sum(name in ids and ids[name] not in before for name in names)

        what = f"topics {', '.join(names)} to be made again"
        self._removal.finish("making topics again", new, len(names), what)

    def _commit(self, positions: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Set positions, and again until they are there: a deletion may still take them along."""
        wanted = {tp: offset for tp, (offset, _) in positions.items()}

        def found() -> int:
            everything = sorted(positions)
            for start in range(0, len(everything), _PARTITIONS_AT_ONCE):
                some = {tp: positions[tp] for tp in everything[start : start + _PARTITIONS_AT_ONCE]}
                if not self._commit_some(some):
                    return 0
            there = self.window.committed()
            return sum(tp in there and there[tp].offset == wanted[tp] for tp in wanted)

        what = "the coordinator to take the positions"
        self._removal.finish("setting positions", found, len(wanted), what)

    def _commit_some(self, positions: dict[TopicPartition, tuple[int, str]]) -> bool:
        request = OffsetCommit(self._name, -1, "", None, positions)
        try:
            answer = self.window.transport.send(request, "main", _REQUEST_MS).result()
        except TransportError as error:
            if not error.passing:
                raise
            return False
        assert isinstance(answer, OffsetCommitAnswer), answer
        codes = set(answer.errors.values()) - {0}
        if codes & _MEMBERS:
            raise RefusedError(
                f"an instance of {self._name} joined while it was reset; its positions are not "
                "set. Stop all instances, then give this command again"
            )
        if codes - _PASSING:
            names = ", ".join(sorted(name_of(code) for code in codes))
            text = f"positions of {self._name} cannot be set: {names}"
            if GROUP_REFUSED in codes:
                raise MissingRightError(f"{text}; {missing(Right('READ', 'group', self._name))}")
            if TOPIC_REFUSED in codes:
                topics = {tp.topic for tp, code in answer.errors.items() if code == TOPIC_REFUSED}
                raise MissingRightError(f"{text}; {on_topics('READ', topics)}")
            raise BrokerError(text)
        return not codes


def check_there(sources: Iterable[str], topics: Collection[str]) -> None:
    """Raise ``MissingTopicError`` if a source is not among the topics."""
    missing = [topic for topic in sources if topic not in topics]
    if missing:
        text = f"source topics that do not exist: {listed(missing)}"
        raise MissingTopicError(text, hidden=missing)


def _left_behind(view: ControlView) -> list[Place]:
    """Entries of members, instances and changelogs that do not exist any more."""
    members: list[Place] = [place for member in view.members() for place in view.places_of(member)]
    return [
        *members,
        *((Mark, instance) for instance in view.marks),
        *((ChangelogTypes, changelog) for changelog in view.types),
    ]
