"""A backfill: an application's changelogs and positions made by Spark out of bounded data.

The frame around it is a reset. The control topic says that one is under way, so that no instance
starts; internal topics are made again, empty; tasks on Spark fill the changelogs; only then
positions are set, and instances may start. One that is broken off has set no position: the same
command begins again, and so does a reset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import attrs

from streamlet.admin.window import GroupWindow
from streamlet.control.changelog_types import unnoted
from streamlet.control.view import ControlView
from streamlet.coordinator.commit_metadata import CommitMetadata, InputNote
from streamlet.coordinator.commit_texts import TextRules, commit_limit
from streamlet.errors import RefusedError
from streamlet.reset.plan import ResetPlan
from streamlet.reset.reset import Reset, check_there
from streamlet.reset.start import EARLIEST, LATEST, StartPosition
from streamlet.spark.state.changelogs import state_number
from streamlet.topology.graph import Topology
from streamlet.topology.internal_topics import changelog_topics
from streamlet.types import NO_STATE, TopicPartition

#: Who committed.
BY = "streamlet backfill"


@attrs.frozen
class BackfillPlan:
    """The positions from which instances go on, and the epoch of the changelog records.

    ``read`` are those of the topics that are read from Kafka up to there; ``counts`` the partitions
    of all topics there are.
    """

    epoch: int
    positions: Mapping[TopicPartition, int]
    read: Mapping[TopicPartition, int]
    counts: Mapping[str, int]


@attrs.frozen
class Backfill:
    """Fills the changelogs of one stopped application.

    Args:
        window: on it.
        live_from: where instances go on in topics whose data comes from files; all other topics
            are read from Kafka, up to their present ends.
        placed: those of them that instances need not look at: it was said how they are written.
        force: discard state and positions that are there.
    """

    window: GroupWindow
    live_from: Mapping[str, StartPosition]
    placed: Collection[str] = ()
    force: bool = False

    def plan(self) -> BackfillPlan:
        """Find positions; nothing is changed, but the control topic is made.

        Raises:
            RefusedError: the application is running, or has positions and ``force`` is not given.
            MissingTopicError: a source topic is missing, or may not be seen.
            BrokerError: the broker does not answer, or refuses.
        """
        topics = self.window.admin.topics()
        check_there(sorted(self._topology.source_topics), topics)
        self.window.control.prepare()
        reset = Reset(self.window, StartPosition(EARLIEST)).plan()
        self._check_new()
        wanted = [move.partition for move in reset.moves]
        read = [tp for tp in wanted if tp.topic not in self.live_from]
        ends = self.window.admin.readable_ends(read)
        positions = dict(ends)
        for topic, start in self.live_from.items():
            positions |= self._at([tp for tp in wanted if tp.topic == topic], start)
        counts = {name: info.partitions for name, info in topics.items()}
        return BackfillPlan(reset.highest_epoch + 1, positions, ends, counts)

    def carry_out(self, plan: BackfillPlan, fill: Callable[[], None]) -> None:
        """Empty the internal topics, fill them, and set positions.

        Args:
            plan: of this.
            fill: writes the changelogs, all of them when it returns.

        Raises:
            RefusedError: the application is running, or another command reset it meanwhile.
            StreamletError: it is not done; the same command begins again.
        """
        reset = Reset(self.window, StartPosition(EARLIEST))
        emptied, ids = reset.empty()
        fill()
        types = unnoted(self._topology.changelog_types, ControlView(), ids)
        reset.finish(emptied, ids, self._commits(plan, emptied), self.filled, types)

    @property
    def filled(self) -> list[str]:
        """The topics in whose place files are read, of which instances look where keys lie."""
        return sorted(self.live_from.keys() - set(self.placed))

    @property
    def _topology(self) -> Topology:
        topology = self.window.application.topology
        assert topology is not None, "a backfill runs an application's topology"
        return topology

    def _check_new(self) -> None:
        name = self.window.name
        if self.force or not self.window.committed():
            return
        raise RefusedError(
            f"{name} has run before: it has committed positions, and state that belongs to them. "
            "A backfill begins from the start and discards both: give --force to go on. Nothing "
            "was changed"
        )

    def _at(
        self, partitions: Collection[TopicPartition], start: StartPosition
    ) -> dict[TopicPartition, int]:
        admin, wanted = self.window.admin, list(partitions)
        if start.at_ms is not None:
            return dict(admin.offsets_at(wanted, start.at_ms))
        if start.where == LATEST:
            return dict(admin.readable_ends(wanted))
        return dict(admin.start_offsets(wanted))

    def _commits(
        self, plan: BackfillPlan, emptied: ResetPlan
    ) -> dict[TopicPartition, tuple[int, str]]:
        """Position and text of every input partition; those of repartition topics are empty."""
        topology, admin = self._topology, self.window.admin
        counts = {name: info.partitions for name, info in admin.topics().items()}
        changelogs = set(changelog_topics(topology))
        ends = admin.end_offsets(
            [TopicPartition(name, p) for name in sorted(changelogs) for p in range(counts[name])]
        )
        note, rules = InputNote(emptied.incarnation), TextRules(commit_limit(admin), compact=True)
        found: dict[TopicPartition, tuple[int, str]] = {}
        for task in topology.tasks({name: counts[name] for name in topology.source_topics}):
            part = topology.subtopology(task.subtopology)
            own = {
                tp: ends[tp]
                for tp in (TopicPartition(name, task.partition) for name in part.changelog_topics)
            }
            state = state_number(plan.epoch) if own else NO_STATE
            metadata = CommitMetadata(plan.epoch, BY, -1, own, state)
            inputs = part.inputs(task.partition, counts)
            texts = rules.texts(metadata, dict.fromkeys(inputs, note))
            found |= {tp: (plan.positions.get(tp, 0), text) for tp, text in texts.items()}
        return found
