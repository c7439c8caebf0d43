"""Reads of the stores of this process: which task answers, from what state, and by when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from itertools import islice
from typing import Any

import attrs

from streamlet.clock import Clock, SystemClock
from streamlet.dsl.processors.queried_views import over_tasks, queried_face
from streamlet.dsl.processors.store_faces import OperatorStore
from streamlet.queries.places import ENOUGH_KEYS, KeyPlaces, Placement, first_found
from streamlet.queries.position import Position
from streamlet.queries.requests import QueryResult
from streamlet.state.memory import MemoryBacking
from streamlet.state.query_errors import (
    InvalidStateStoreError,
    InvalidStateStorePartitionError,
    KeyPlaceUnknownError,
    NotUpToBoundError,
    QueryRefusedError,
    StateStoreMigratedError,
    StreamsNotStartedError,
    StreamsRebalancingError,
    UnknownStateStoreError,
)
from streamlet.state.read_views import StateView
from streamlet.state.store_kinds import store_of
from streamlet.state.store_specs import StoreSpec
from streamlet.tasks.served_copies import ServedCopy
from streamlet.tasks.served_tasks import ServedTask, ServedTasks, ServingWorker
from streamlet.topology.graph import Topology
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import TaskId, TopicPartition
from streamlet.user_code import listed, shown

#: Entries that one read of newest state gives at most: the worker's loop waits for it.
MOST_NEWEST = 10_000
#: How long a reader waits before it looks again without being called, ms.
_LOOK_MS = 50


@attrs.frozen
class ReadOptions:
    """The way in which a store is read.

    Attributes:
        partition: of the task; None: that of the key, or all.
        local: whether reads without a key are of the partitions that are here, if not all are.
        newest: whether to read what is not committed yet.
        at_least: the position that an answer contains at least.
        timeout_ms: how long to wait for a task, and for the position.
        max_staleness_ms: by how much standbys and learners may be behind that answer where the task
            is not here; None: none may.
    """

    partition: int | None = None
    local: bool = False
    newest: bool = False
    at_least: Position = attrs.field(factory=Position)
    timeout_ms: int = 1_000
    max_staleness_ms: int | None = None


class _ViewedTask:
    """The stores of one view, or empty ones without a view, asked for as those of a task are."""

    def __init__(self, subtopology: Subtopology, view: StateView | None = None) -> None:
        self._subtopology, self._view = subtopology, view
        self._made: dict[str, Any] = {}

    def store(self, name: str) -> Any:
        """A store over the view, with nothing in memory yet."""
        if name not in self._made:
            view, spec = self._view, self._subtopology.store(name)
            made = store_of(spec, MemoryBacking() if view is None else view.backing(name))
            if view is not None:
                made.commits.latest = view.contents.latest[name]
            self._made[name] = made
        return self._made[name]


@attrs.frozen(eq=False)
class LocalStore:
    """One store of the application, as far as tasks of this process have it; a ``TaskReads``.

    Args:
        served: the tasks here.
        topology: the application's.
        name: of the store.
        kind: that it is seen as; None: its own.
        options: how it is read.
        clock: the time.
        starting: true while a run is under way whose worker has not begun; calls wait for it.
    """

    served: ServedTasks
    topology: Topology
    name: str
    kind: Any = None
    options: ReadOptions = attrs.field(factory=ReadOptions)
    clock: Clock = attrs.field(factory=SystemClock)
    starting: Callable[[], bool] = lambda: False
    part: Subtopology = attrs.field(init=False)

    @part.default
    def _found(self) -> Subtopology:
        for part in self.topology.subtopologies:
            if any(spec.name == self.name for spec in part.stores):
                return part
        if any(table.store.name == self.name for table in self.topology.global_tables):
            raise InvalidStateStoreError(
                f"store {self.name!r} is of a global table, whose rows are read by processors; "
                "query a table of the same topic"
            )
        known = sorted(spec.name for part in self.topology.subtopologies for spec in part.stores)
        raise UnknownStateStoreError(
            f"no store {shown(self.name)}; there are: {listed(known) or 'none'}"
        )

    @property
    def spec(self) -> StoreSpec:
        """The store as the topology has it."""
        return self.part.store(self.name)

    def face(self) -> Any:
        """The store with the methods of its kind.

        Raises:
            TypeError: it is not of the kind.
        """
        return over_tasks(queried_face(self.spec, _ViewedTask(self.part), self.kind), self)

    def key_bytes(self, key: Any) -> bytes:
        """The bytes of a record key."""
        spec = self.spec
        if spec.window is not None:
            raw: bytes = spec.window.key.encode(key)
        else:
            raw = spec.record_key.encode(key)
        return raw

    def partition_of(self, key: Any) -> int:
        """The partition that has a key, as the producers of the input place it.

        Raises:
            InvalidStateStoreError: the keys that are here do not show by which partitioner they
                lie, or lie as no known one puts them.
        """
        places = self.places(key).partitions
        if len(places) > 1:
            raise KeyPlaceUnknownError(
                f"store {self.name!r} has too few keys here to show by which partitioner they lie; "
                "ask again, or name the partition (partition=)"
            )
        return places[0]

    def places(self, key: Any) -> KeyPlaces:
        """The partitions where a key may be, by what is known of its partitioner here.

        Raises:
            InvalidStateStoreError: the keys that are here lie as no known partitioner puts them.
        """
        count, raw = self.partitions(), self.key_bytes(key)
        if count == 1:
            return KeyPlaces((0,), certain=True)
        placement = Placement(self.served, self.topology, self.part, self.spec, self._samples)
        return placement.of(raw, count)

    def partitions(self) -> int:
        """Number of the store's tasks.

        Raises:
            StreamsNotStartedError: no worker runs here.
        """
        return self.part.task_count(self._worker().counts())

    # As ``TaskReads``.

    def of_key(self, key: Any, read: Callable[[Any], Any]) -> Any:
        """The result of ``read`` on the store of the task that has a key.

        While the keys that are here do not show by which partitioner they lie, each task is asked
        that may have it.
        """
        if self.options.partition is not None:
            return self.ask(self.options.partition, read).result
        return first_found(self.ask(one, read).result for one in self.places(key).partitions)

    def of_all(self, read: Callable[[Any], Any]) -> list[Any]:
        """The results of ``read`` on the store of each task."""
        return [self.ask(number, read).result for number in self.wanted()]

    def wanted(self) -> list[int]:
        """The partitions of a read without a key."""
        if self.options.partition is not None:
            return [self.options.partition]
        every = range(self.partitions())
        if not self.options.local:
            return list(every)
        here = {*self.served.tasks(self.part.id)}
        if self._takes_copies:
            here |= {one.partition for one in self._followed()}
        return [number for number in every if number in here]

    # One task.

    def ask(self, partition: int, read: Callable[[Any], Any]) -> QueryResult[Any]:
        """The answer of one partition's task, once there is one that may answer.

        Raises:
            InvalidStateStoreError: there is none in time; the subclass says why.
        """
        count = self.partitions()
        if not 0 <= partition < count:
            raise InvalidStateStorePartitionError(
                f"store {self.name!r} has partitions 0 to {count - 1}, not {partition}"
            )
        deadline = self.clock.now_ms() + self.options.timeout_ms
        while True:
            try:
                return self._ask(partition, read)
            except InvalidStateStoreError as error:
                left_ms = deadline - self.clock.now_ms()
                if not error.passing or left_ms <= 0 or isinstance(error, QueryRefusedError):
                    raise
            self.served.wait(min(left_ms, _LOOK_MS) / 1000)

    def _ask(self, partition: int, read: Callable[[Any], Any]) -> QueryResult[Any]:
        worker, options = self._worker(), self.options
        task = self.served.tasks(self.part.id).get(partition)
        if task is not None and worker.owns():
            return (self._newest if options.newest else self._committed)(task, read, worker)
        if self._takes_copies and TaskId(self.part.id, partition) in self._followed():
            return self._copied(TaskId(self.part.id, partition), read)
        raise self._absent(partition)

    def _committed(
        self, task: ServedTask, read: Callable[[Any], Any], worker: ServingWorker
    ) -> QueryResult[Any]:
        view = task.views.take()
        if view is None:
            raise self._absent(task.task.partition)
        position = Position(task.position(view))
        self._check_position(position, task.active.inputs)
        self._check_places(task)
        result = read(queried_face(self.spec, _ViewedTask(self.part, view), self.kind))
        if not worker.owns():
            raise self._absent(task.task.partition)
        return QueryResult(result, position)

    @property
    def _takes_copies(self) -> bool:
        return self.options.max_staleness_ms is not None and not self.options.newest

    def _followed(self) -> list[TaskId]:
        """The tasks of the store that are copied here."""
        return [one for one in self.served.copies.followed if one.subtopology == self.part.id]

    def _copied(self, task: TaskId, read: Callable[[Any], Any]) -> QueryResult[Any]:
        """The answer of a standby or a learner that is not too far behind."""
        most_ms, copies = self.options.max_staleness_ms or 0, self.served.copies
        copy = copies.get(task, self.name)
        age_ms = -1 if copy is None else self.clock.wall_ms() - copy.at_ms
        if copy is None or not 0 <= age_ms <= most_ms:  # below 0: the clock was set back
            copies.ask(task)
            known = "is not known to be" if age_ms < 0 else f"was {age_ms} ms ago"
            raise NotUpToBoundError(
                f"store {self.name!r}: the copy of task {task} here {known} all that its log has, "
                f"and {most_ms} ms are allowed"
            )
        position = Position(copy.position)
        try:
            self._check_position(position, self._inputs_of(copy, task))
        except NotUpToBoundError:
            copies.ask(task)
            raise
        try:
            result = read(queried_face(self.spec, _ViewedTask(self.part, copy.view), self.kind))
        except StateStoreMigratedError:
            copies.forget(task)
            raise
        return QueryResult(result, position, age_ms)

    def _inputs_of(self, copy: ServedCopy, task: TaskId) -> tuple[TopicPartition, ...]:
        """The input partitions that a bound is about; a topic that came since is one of them."""
        found = {*copy.position}
        if self.spec.source_topic is None:  # else the copy is of that topic, and no other
            here = (tp for tp in self.options.at_least.offsets if tp.partition == task.partition)
            found |= {tp for tp in here if any(one.reads(tp.topic) for one in self.part.sources)}
        return tuple(found)

    def _newest(
        self, task: ServedTask, read: Callable[[Any], Any], worker: ServingWorker
    ) -> QueryResult[Any]:
        active = task.active

        def on_loop() -> QueryResult[Any]:
            is_here = self.served.tasks(self.part.id).get(task.task.partition) is task
            if not (is_here and worker.owns()):
                raise self._absent(task.task.partition)
            position = Position(dict(active.positions))
            self._check_position(position, active.inputs)
            self._check_places(task)
            result = read(queried_face(self.spec, active.processor, self.kind))
            if isinstance(result, Iterator):
                result = iter(self._bounded(result))
            return QueryResult(result, position)

        future = self.served.ask(on_loop)
        try:
            answered: QueryResult[Any] = future.result(self.options.timeout_ms / 1000)
        except (TimeoutError, CancelledError) as error:
            future.cancel()
            raise NotUpToBoundError(
                f"the worker did not come to a query of {self.name!r} within "
                f"{self.options.timeout_ms} ms; ask for committed state, or wait longer"
            ) from error
        return answered

    def _bounded(self, entries: Iterator[Any]) -> list[Any]:
        found = list(islice(entries, MOST_NEWEST + 1))
        if len(found) > MOST_NEWEST:
            raise QueryRefusedError(
                f"a read of newest state gives {MOST_NEWEST:,} entries at most; take a smaller "
                "range, or committed state"
            )
        return found

    def _samples(self) -> list[tuple[int, bytes]]:
        """Partitions with the bytes of some record keys that lie there."""
        return [(number, key) for number, view in self._here() for key in self._sample(view)]

    def _here(self) -> list[tuple[int, StateView]]:
        """The partitions that are here, and views of what they have."""
        found = {n: task.views.take() for n, task in self.served.tasks(self.part.id).items()}
        for task in self._followed() if self._takes_copies else ():
            copy = self.served.copies.get(task, self.name)
            found.setdefault(task.partition, None if copy is None else copy.view)
        return [(number, view) for number, view in sorted(found.items()) if view is not None]

    def _sample(self, view: StateView) -> list[bytes]:
        """The bytes of some record keys of a task."""
        if self.spec.versions is not None:
            return []
        rows = queried_face(self.spec, _ViewedTask(self.part, view), None)
        if isinstance(rows, OperatorStore):
            return []
        keys = (key for key, _ in islice(rows.range(), ENOUGH_KEYS))
        return [self.key_bytes(key.key if self.spec.window is not None else key) for key in keys]

    # Who may answer.

    def _worker(self) -> ServingWorker:
        deadline = self.clock.now_ms() + self.options.timeout_ms
        while (worker := self.served.worker) is None:
            here = f"{self.topology.application} does not run in this process"
            if not self.starting():
                raise StreamsNotStartedError(
                    f"{here}: stores are read while App.run or streamlet run is under way"
                )
            if self.clock.now_ms() >= deadline:
                raise StreamsNotStartedError(f"{here} yet: it is starting; a longer timeout= waits")
            self.served.wait(_LOOK_MS / 1000)
        return worker

    def _absent(self, partition: int) -> InvalidStateStoreError:
        what = f"store {self.name!r}, partition {partition}"
        worker = self.served.worker
        if self.served.state != "RUNNING":
            return StreamsRebalancingError(f"{what}: the worker is {self.served.state}; ask again")
        if worker is not None and not worker.owns():
            return StateStoreMigratedError(
                f"{what}: the group has not heard of this worker for so long that others may have "
                "its tasks; ask another instance"
            )
        return StateStoreMigratedError(
            f"{what}: its task is not in this process; ask the instance that has it "
            "(App.metadata), or read what is here with local=True"
        )

    def _check_position(self, position: Position, inputs: tuple[TopicPartition, ...]) -> None:
        bound = self.options.at_least
        missing = position.missing(bound, inputs)
        if missing:
            raise NotUpToBoundError(
                f"store {self.name!r} is not as far as the query asks for: {missing}"
            )

    def _check_places(self, task: ServedTask) -> None:
        misplaced = task.active.misplaced
        if misplaced and self.options.partition is None:
            raise InvalidStateStoreError(
                f"{misplaced}. Until then name the partition in queries (partition=)"
            )
