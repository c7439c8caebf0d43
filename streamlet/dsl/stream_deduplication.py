"""The part of ``KStream`` that leaves repeated records out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from streamlet.dsl.folds.deduplication import Deduplicate, deduplication_store
from streamlet.dsl.graph.builder import StreamNode
from streamlet.dsl.graph.durations import Duration, milliseconds
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import StoreLike
from streamlet.dsl.processors.state_nodes import repartitioned
from streamlet.topology.operator import TaskContext

if TYPE_CHECKING:
    from streamlet.dsl.stream import KStream

K = TypeVar("K")
V = TypeVar("V")


class StreamDeduplication(Generic[K, V]):
    """The part of ``KStream`` that leaves repeated records out."""

    _node: StreamNode
    _key: Kind
    _value: Kind

    def deduplicate(
        self,
        within: Duration,
        *,
        grace: Duration | None = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KStream[K, V]:
        """The records that repeat none of their key within a time.

        A record goes on unless one of its key did whose timestamp is at most ``within`` before or
        after its own. So of records that come out of order the one that comes first goes on. Times
        are kept until stream time, the highest timestamp, is ``within`` and ``grace`` past them; a
        record that is older than ``grace`` by stream time cannot be compared any more, so it is
        left out and counted as late. Without ``grace`` that is ``within``. ``store`` is the name of
        the store, or a ``Materialized``; ``name`` that of the node, and of the repartition topic,
        if there is one.

        - Nulls: a record without a key is left out and counted as dropped; values are kept.
        - Key, timestamp, headers: kept.

        Raises:
            TopologyError: a time is no duration, or the type of the keys is not known.

        Examples:
            >>> orders.deduplicate("10s").to("first")
            >>> run(orders=[("lamp", 3, 0), ("lamp", 3, 9_000), ("lamp", 3, 30_000)])
            {'first': [('lamp', 3), ('lamp', 3)]}
        """
        call, above = "deduplicate()", self._node
        within_ms = milliseconds(f"{call}: within", within)
        grace_ms = within_ms if grace is None else milliseconds(f"{call}: grace", grace)
        parent = repartitioned(call, above, self._key, self._value, name)
        key = self._key.needed(call, "key", takes=False)
        spec = deduplication_store(above.builder, store, key, within_ms, grace_ms)
        own = above.builder.graph.new_name("KSTREAM-DEDUPLICATE-", name)

        def make(context: TaskContext) -> Deduplicate:
            return Deduplicate(own, context, context.store(spec.name), within_ms, grace_ms)

        above.builder.named_processor(
            own, (parent,), make, writes=spec.name, skip_nulls="key", values="passed on"
        )
        made: KStream[K, V] = self._made(StreamNode(above.builder, own), self._key, self._value)
        return made

    def _made(self, node: StreamNode, key: Kind, value: Kind) -> Any:
        return type(self)(node, key, value)  # type: ignore[call-arg]
