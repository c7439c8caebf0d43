"""The stores of simulated tasks: what lies on an instance's disk, and who has its folder.

The state of a task is the count of its inputs, so a wrong restore shows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.state.backing import Columns
from streamlet.state.drained import Drained
from streamlet.state.load import Loader
from streamlet.tasks.open_task import OpenTask
from streamlet.testing.simulation.cluster import SimulatedInstance, changelog_of, input_of
from streamlet.types import NO_STATE, StateNumber, TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember
    from streamlet.testing.simulation.world import World

#: The one store of a stateful task.
STORE = "counts"


class SimViews:
    """The views of a task's stores that queries would read; no history has queries."""

    def open(self, written: Callable[[], None]) -> None:
        """Begin to give views: there is no reader."""

    def close(self) -> None:
        """Give no more."""


@attrs.define(eq=False)
class SimStores:
    """The stores of a task in an instance's folder, in place of ``state.task_state``.

    ``value`` is the count they hold.
    """

    world: World
    instance: SimulatedInstance
    task: TaskId
    value: int = 0
    state: StateNumber = NO_STATE
    inputs: Mapping[TopicPartition, int] | None = None
    reach: StateNumber = NO_STATE
    positions: dict[TopicPartition, int] = attrs.field(factory=dict)
    epochs: dict[TopicPartition, int] = attrs.field(factory=dict)
    topic_ids: dict[str, str] = attrs.field(factory=dict)
    met: int = 0
    cache_bytes: int = 0
    plain: frozenset[str] = frozenset()
    time_indexes: tuple[TopicPartition, ...] = ()
    on_disk: bool = True
    views: SimViews = attrs.field(factory=SimViews)
    rewrites: bool = False  # its changelog lost records: it is written again as a whole

    @property
    def changelogs(self) -> dict[str, TopicPartition]:
        """The changelog of each store."""
        stateful = self.world.cluster.is_stateful(self.task)
        return {STORE: changelog_of(self.task)} if stateful else {}

    @property
    def stores(self) -> dict[str, TopicPartition]:
        """The stores by name; what they are does not matter here."""
        return self.changelogs

    def has_dirty(self) -> bool:
        """True if something was put that no commit covers."""
        return self.rewrites  # what is new comes with the positions

    def write_all_again(self, store: str) -> None:
        """Let the next commit write the store as a whole."""
        self.rewrites = True

    def dirty_bytes(self) -> int:
        """Bytes that only a commit frees: none here."""
        return 0

    def trim(self) -> None:
        """Bound no cache: there is none."""

    def loader(self, store: str) -> Loader:
        """Fills the store from its changelog."""
        return Loader(self, store, self.changelogs[store])

    def load(
        self,
        columns: Columns,
        partition: TopicPartition,
        position: int,
        epoch: int,
        at_ms: int | None,
        newest: StateNumber,
    ) -> None:
        """Take over a chunk of the changelog."""
        for row in columns.values:
            assert row is not None
            self.value = int(row)
        self.positions = {**self.positions, partition: position}
        self.epochs = {**self.epochs, partition: max(epoch, self.epochs.get(partition, 0))}
        if columns.values:
            self.inputs = None
            self.reach = max(self.reach, newest)

    def restored(
        self, state: StateNumber, skipped: object, inputs: Mapping[TopicPartition, int] | None
    ) -> None:
        """Note that the changelog was read to a commit."""
        self.inputs = inputs if inputs is not None or state != self.state else self.inputs
        self.state = self.reach = state
        self.read_to_end()

    def write(
        self,
        drained: Drained,
        contained: StateNumber,
        positions: Mapping[TopicPartition, int],
        times: object,
        inputs: Mapping[TopicPartition, int],
    ) -> None:
        """Take over what was accepted.

        Raises:
            StateError: the disk refuses.
        """
        self.world.network.check_disk(self.task)
        self._take(contained, positions, inputs)

    def _take(
        self,
        contained: StateNumber,
        positions: Mapping[TopicPartition, int],
        inputs: Mapping[TopicPartition, int],
    ) -> None:
        self.state, self.reach, self.rewrites = contained, contained, False
        self.inputs = dict(inputs)
        self.value = inputs[input_of(self.task)]
        self.positions = {**self.positions, **positions}
        self.epochs = dict.fromkeys(self.positions, contained.epoch)
        self.read_to_end()

    def load_all(self) -> None:
        """Take over the changelog as it is, as the store of its owner would have it."""
        number, value = self.world.cluster.logs[self.task].records[-1]
        end = len(self.world.cluster.logs[self.task].records)
        self._take(number, {changelog_of(self.task): end}, {input_of(self.task): value})

    def read_to_end(self) -> None:
        """The disk has all of the changelog, as scenarios count it."""
        if self.world.cluster.is_stateful(self.task):
            self.instance.disk[self.task] = self.world.cluster.logs[self.task].end

    def wipe(self) -> None:
        """Delete what is on disk."""
        self.value, self.state, self.reach, self.inputs = 0, NO_STATE, NO_STATE, None
        self.positions, self.epochs = {}, {}
        self.instance.disk[self.task] = 0

    def close(self) -> None:
        """Keep the files as they are; what was to be written again is forgotten."""
        self.rewrites = False


@attrs.frozen(eq=False)
class SimLock:
    """The lock of one member on the folder of a task."""

    member: SimMember
    stores: SimStores

    def wipe(self) -> None:
        """Delete what is in the folder."""
        self.stores.wipe()

    def release(self) -> None:
        """Let other members of the instance have the folder."""
        locks, task = self.member.instance.locks, self.stores.task
        if locks.get(task) == self.member.name:
            del locks[task]


def locked(member: SimMember, task: TaskId) -> bool:
    """Lock the folder of a task; False if it is locked already."""
    if member.world.cluster.is_stateful(task):
        if task in member.instance.locks:
            return False
        member.instance.locks[task] = member.name
    return True


def stores_on(world: World, instance: SimulatedInstance, task: TaskId) -> SimStores:
    """The stores of a task on an instance's disk; those of a stateless task are made up."""
    if not world.cluster.is_stateful(task):
        return SimStores(world, instance, task)
    return instance.stores.setdefault(task, SimStores(world, instance, task))


def opened(member: SimMember, task: TaskId) -> OpenTask:
    """The stores of a task whose folder is locked."""
    stores: Any = stores_on(member.world, member.instance, task)
    lock: Any = SimLock(member, stores)
    return OpenTask(task, stores, lock)
