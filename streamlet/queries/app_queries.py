"""``store`` and ``query``: the part of ``App`` that reads the stores of a run in this process."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streamlet.arguments import calls_told_by_form, check_is
from streamlet.queries.position import Position
from streamlet.state.query_errors import StreamsNotStartedError
from streamlet.tasks.served_tasks import ServedTasks, ServingWorker
from streamlet.types import ms_of

if TYPE_CHECKING:
    from streamlet.config import Settings
    from streamlet.dsl.processors.store_builders import StoreBuilder
    from streamlet.queries.local import LocalStore, ReadOptions
    from streamlet.queries.metadata import KeyMetadata, StoreHost
    from streamlet.queries.requests import StateQueryRequest, StateQueryResult
    from streamlet.topology.graph import Topology

S = TypeVar("S")
R = TypeVar("R")


@calls_told_by_form
class Queries:
    """Reads of the stores of the application that runs in this process, from any thread."""

    _served: ServedTasks

    if TYPE_CHECKING:

        def topology(self, settings: Settings | None = None) -> Topology:
            """The finished topology, of ``App``."""
            ...

        def _is_under_way(self) -> bool: ...

    @overload
    def store(
        self,
        store: str,
        /,
        *,
        partition: int | None = None,
        local: bool = False,
        newest: bool = False,
        at_least: Position | None = None,
        timeout: timedelta | float = 1.0,
        max_staleness: timedelta | float | None = None,
    ) -> Any: ...
    @overload
    def store(
        self,
        store: str,
        kind: type[S],
        /,
        *,
        partition: int | None = None,
        local: bool = False,
        newest: bool = False,
        at_least: Position | None = None,
        timeout: timedelta | float = 1.0,
        max_staleness: timedelta | float | None = None,
    ) -> S: ...
    @overload
    def store(
        self,
        store: StoreBuilder[S],
        /,
        *,
        partition: int | None = None,
        local: bool = False,
        newest: bool = False,
        at_least: Position | None = None,
        timeout: timedelta | float = 1.0,
        max_staleness: timedelta | float | None = None,
    ) -> S: ...
    def store(
        self,
        store: Any,
        kind: Any = None,
        /,
        *,
        partition: int | None = None,
        local: bool = False,
        newest: bool = False,
        at_least: Position | None = None,
        timeout: timedelta | float = 1.0,
        max_staleness: timedelta | float | None = None,
    ) -> Any:
        """A store of the run in this process, to be read from any thread while it goes on.

        It is the class that processors and ``TopologyTestDriver.store`` have. Each call of its
        methods reads the state as of the last commit; a call without a key reads all partitions. A
        store that is not here now, or moves, raises an error, and is never taken for an empty one.

        Args:
            store: its name, or what it was made with.
            kind: such as ``WindowStore[str, int]``; it is checked, the types are believed.
            partition: of the task that is asked; None: that of the key, or all.
            local: whether calls without a key may leave out partitions of other instances.
            newest: whether to read what is not committed yet. The worker's loop answers, between
                two batches.
            at_least: the position that each answer contains at least, as ``query`` gave it.
            timeout: how long each call waits for the task and the position, and for a run that is
                starting; seconds or a ``timedelta``.
            max_staleness: by how much a standby or learner here may be behind that answers where
                the task runs elsewhere, seconds or a ``timedelta``; None: none does.

        Raises:
            UnknownStateStoreError: there is no store of that name.
            TypeError: it is of another kind.
            StreamsNotStartedError: by a call: nothing runs here.
            StreamsRebalancingError: by a call: the task is not ready in time.
            StateStoreMigratedError: by a call: another instance has the task, or gets it.
            NotUpToBoundError: by a call: the state is not as far as asked for.
            QueryRefusedError: by a call: too many reads of newest state, or too large a one.
        """
        from streamlet.queries.local import ReadOptions

        options = ReadOptions(
            *(partition, local, newest, at_least or Position()),
            timeout_ms=ms_of(timeout),
            max_staleness_ms=None if max_staleness is None else ms_of(max_staleness),
        )
        name: Any = store if isinstance(store, str) else getattr(store, "name", None)
        if not isinstance(name, str):
            check_is("store()", store, (str,), "the name of a store, or what it was made with")
        return self._local(name, kind, options).face()

    def query(self, request: StateQueryRequest[R]) -> StateQueryResult[R]:
        """The answers to a query by the partitions that are here, each with its position.

        A reader that gives the position of each result to its next query as ``position_bound``
        never sees a key go back.

        Raises:
            InvalidStateStoreError: a partition cannot answer, as of ``store``.
            TypeError: the store is of another kind than the query.
        """
        from streamlet.queries.local import ReadOptions
        from streamlet.queries.requests import StateQueryRequest, StateQueryResult

        check_is("query()", request, (StateQueryRequest,), "a StateQueryRequest(store, query)")
        query, most = request.query, request.max_staleness
        options = ReadOptions(
            local=True,
            newest=request.newest,
            at_least=request.position_bound.position,
            timeout_ms=ms_of(request.timeout),
            max_staleness_ms=None if most is None else ms_of(most),
        )
        store = self._local(request.store, query.kind, options)
        store.face()  # of the query's kind
        if request.partitions is not None:
            partitions = sorted(set(request.partitions))
        elif query.partition_key is not None:
            partitions = [store.partition_of(query.partition_key)]
        else:
            partitions = store.wanted()
        return StateQueryResult({number: store.ask(number, query.read) for number in partitions})

    def metadata_for_key(self, store: str, key: Any) -> KeyMetadata:
        """The members that have a key of a store, and where they answer queries.

        As ``queryMetadataForKey`` in Kafka Streams: from what the members of the group reported
        last, without a question to the broker.

        Raises:
            StreamsNotStartedError: nothing runs here.
            KeyPlaceUnknownError: too few keys are here to show in which partition it lies.
            InvalidStateStoreError: there is no such store, or no known partitioner placed its keys.
        """
        from streamlet.queries.metadata import of_task
        from streamlet.types import TaskId

        found = self._local(store)
        partition = found.partition_of(key)
        return of_task(self._serving().view(), TaskId(found.part.id, partition))

    def metadata_for_store(self, store: str) -> tuple[StoreHost, ...]:
        """The members that have a part of a store, by name, as ``streamsMetadataForStore``.

        Raises:
            StreamsNotStartedError: nothing runs here.
            UnknownStateStoreError: there is no store of that name.
        """
        from streamlet.queries.metadata import hosts

        found = self._local(store)
        return hosts(self._serving().view(), [found.part.id])

    def metadata_for_all(self) -> tuple[StoreHost, ...]:
        """All members of the group with their tasks, and where they answer queries, by name.

        Unlike ``metadata`` it asks no broker: it is what the members reported last.

        Raises:
            StreamsNotStartedError: nothing runs here.
        """
        from streamlet.queries.metadata import hosts

        return hosts(self._serving().view())

    def _local(
        self, store: str, kind: Any = None, options: ReadOptions | None = None
    ) -> LocalStore:
        from streamlet.queries.local import LocalStore, ReadOptions

        topology, how = self._running(), options or ReadOptions()
        return LocalStore(self._served, topology, store, kind, how, starting=self._is_under_way)

    def _serving(self) -> ServingWorker:
        worker = self._served.worker
        if worker is None:
            raise StreamsNotStartedError(f"{self.topology().application} does not run here")
        return worker

    def _running(self) -> Topology:
        worker = self._served.worker
        return self.topology() if worker is None else worker.topology
