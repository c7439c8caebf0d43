"""Joins of two streams: their nodes and stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import attrs

from streamlet.dsl.graph.builder import Builder, Make, NodeParts
from streamlet.dsl.graph.functions import takes
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import Materialized, StoreLike, no_headers
from streamlet.dsl.graph.one_app import same_app
from streamlet.dsl.graph.row_expiry import ttl_of
from streamlet.dsl.graph.stream_node import StreamFace, StreamNode
from streamlet.dsl.joins.joiner import Joiner, joiner_of
from streamlet.dsl.joins.sides import Keep, MatchItself, MatchRecords, Side
from streamlet.dsl.joins.stream_table import copartitioned
from streamlet.dsl.joins.unmatched import Looks, MatchOrWait
from streamlet.dsl.joins.windows import JoinWindows
from streamlet.dsl.operators.copies import owner
from streamlet.dsl.operators.hot_store import copier
from streamlet.dsl.operators.stateless import PassOn
from streamlet.errors import TopologyError
from streamlet.serdes import Serde
from streamlet.state.join_rows import kept_rows
from streamlet.state.store_specs import StoreSpec, WindowSpec
from streamlet.state.unmatched_store import unmatched_rows
from streamlet.state.window_rows import row_keys
from streamlet.topology.nodes import ProcessorNode
from streamlet.topology.operator import TaskContext
from streamlet.topology.optimization import InnerJoin
from streamlet.user_code import shown

#: Which records are sent without a match: those of no side, of the left one, of both.
JoinKind = Literal["inner", "left", "outer"]


@attrs.frozen
class _Stores:
    """The names of a join's stores, and how they are kept."""

    records: tuple[str, str]
    unmatched: str
    how: Materialized

    def spec(self, name: str, key: Serde[Any], value: Serde[Any], **more: Any) -> StoreSpec:
        """A store of this join."""
        how = self.how
        named = how.name is not None
        kept = how.persistent, how.logged, named
        return StoreSpec(name, key, value, *kept, rocks=how.rocks, **more)


def joined_streams(
    kind: JoinKind,
    streams: tuple[StreamFace, StreamFace],
    joiner: Any,
    windows: Any,
    value: Any,
    store: StoreLike,
    name: str | None,
) -> tuple[StreamNode, Kind, Kind]:
    """The node, the keys and the values of two streams that are joined.

    Raises:
        TopologyError: there are no windows, or the keys of the streams differ.
    """
    call = "join()" if kind == "inner" else f"{kind}_join()"
    stream, other = streams
    if not isinstance(windows, JoinWindows):
        got = "" if windows is None else f", got {shown(windows)}"
        raise TopologyError(
            f"{call}: two streams join within a span of time: pass within=, for example "
            f'within=streamlet.join_windows("5m"){got}'
        )
    same_app(call, stream._node.builder, other._node.builder)
    count = takes(call, joiner, "key", "left", "right")
    key, other_key = (one._key.needed(call, "key", takes=False) for one in streams)
    if key.name != other_key.name:
        raise TopologyError(
            f"{call}: the keys of the streams differ, {key.name} and {other_key.name}; "
            "select_key() can make them alike"
        )
    values = tuple(one._value.needed(call, "value", takes=False) for one in streams)
    parents = _copartitioned(call, streams, name)
    kinds = stream._key, stream._value, other._value
    made, result = joiner_of(call, stream._node.builder, joiner, kinds, count, value)
    join = _Join(kind, windows, key, (values[0], values[1]), made)
    node = join.added(parents, Materialized.of(store), call, name)
    return node, stream._key, result


def _copartitioned(
    call: str, streams: tuple[StreamFace, StreamFace], name: str | None
) -> tuple[StreamNode, StreamNode]:
    """Both streams behind repartition topics, if their keys may have changed."""
    stream, other = streams
    names = (None, None) if name is None else (f"{name}-left", f"{name}-right")
    left = copartitioned(call, stream, stream._key, stream._value, names[0])
    return left, copartitioned(call, other, other._key, other._value, names[1])


@attrs.frozen
class _Join:
    """A join of two streams, as it is added to a topology."""

    kind: JoinKind
    windows: JoinWindows
    key: Serde[Any]
    values: tuple[Serde[Any], Serde[Any]]
    joiner: Joiner

    def added(
        self,
        parents: tuple[StreamNode, StreamNode],
        how: Materialized,
        call: str,
        given: str | None,
    ) -> StreamNode:
        """Add its nodes and stores, under the names that Kafka Streams gives them."""
        ttl_of(how, "records of a join expire with its windows")
        if how.headers:
            raise TopologyError(no_headers(how.name))
        if how.retention is not None:
            raise TopologyError(f"{call}: the windows say how long the stores keep records")
        if self.kind == "inner" and self.windows.interval_ms:
            raise TopologyError(f"{call}: join_windows(emit_interval=…) is for unmatched results")
        builder = parents[0].builder
        for parent in parents if self.kind != "inner" else ():
            builder.keep_null_keys(parent.name)
        new = builder.graph.new_name
        windowed = (
            new("KSTREAM-WINDOWED-", given, "-this-windowed"),
            new("KSTREAM-WINDOWED-", given, "-other-windowed"),
        )
        made_up = (
            new("KSTREAM-OUTERTHIS-" if self.kind == "outer" else "KSTREAM-JOINTHIS-"),
            new("KSTREAM-JOINOTHER-" if self.kind == "inner" else "KSTREAM-OUTEROTHER-"),
        )
        merge = new("KSTREAM-MERGE-", given, "-merge")
        stores = self._stores(made_up, how)
        names = made_up if given is None else self._sides(given)
        self._add_stores(builder, stores)
        for side, own in enumerate(stores.records):
            kept = windowed[side]
            as_read = builder.is_as_read(parents[side].name, self.values[side])
            builder.named_processor(
                kept,
                (parents[side].name,),
                self._keeping(own, side, as_read),
                writes=own,
                values="stored" if as_read else "passed on",
                keeps=as_read,
                **self._together(),
            )
            self._add_join(builder, names[side], kept, stores, side)
        builder.named_processor(merge, names, lambda _: PassOn(), values="passed on")
        if self.kind == "inner":
            self_join = self._self_join(builder, merge, windowed[0], stores.records[0])
            builder.graph.inner_joins.append(InnerJoin(windowed, names, stores.records, self_join))
        return StreamNode(builder, merge)

    def _self_join(self, builder: Builder, name: str, kept: str, store: str) -> ProcessorNode:
        """The operator that joins a stream with itself, with one store."""
        left, right = (self._matching(store, side, but_itself=side == 0) for side in (0, 1))
        return builder.node(
            name,
            (kept,),
            lambda context: MatchItself(left(context), right(context)),
            reads=(store,),
            skip_nulls="key value",
            values=self.joiner.values,
        )

    def _add_stores(self, builder: Builder, stores: _Stores) -> None:
        """Add the store of each side's records, and that of those without a match."""
        for name, value in zip(stores.records, self.values, strict=True):
            key, rows, window = self._records(value)
            builder.graph.add_store(stores.spec(name, key, rows, window=window, join="records"))
        if self.kind != "inner":
            key = attrs.evolve(row_keys(self.key), name=f"unmatched in joins: {self.key.name}")
            rows = unmatched_rows(*self.values)
            builder.graph.add_store(stores.spec(stores.unmatched, key, rows, join="unmatched"))

    def _add_join(self, builder: Builder, name: str, kept: str, stores: _Stores, side: int) -> None:
        """Add the operator of a side behind the one that stores its records."""
        other, unmatched = stores.records[1 - side], stores.unmatched
        if self.kind == "inner":
            matching = self._matching(other, side)
            parts = NodeParts(reads=(other,), skip_nulls="key value", values=self.joiner.values)
            builder.named_processor(name, (kept,), matching, **parts, **self._together())
        else:
            make = self._waiting(name, other, unmatched, side)
            if self.windows.interval_ms:
                more: dict[str, Any] = {"timed": "by the clock"}
            else:
                more = {**self._together(), "in_order": True}
            builder.named_processor(name, (kept,), make, writes=unmatched, reads=(other,), **more)

    def _together(self) -> dict[str, Any]:
        """The bound on records that are taken together, if they may be.

        So near to each other, none makes one expire that another joins with.
        """
        windows = self.windows
        spread_ms = windows.kept_ms - 1 - max(windows.before_ms, windows.after_ms)
        if spread_ms < 0:
            return {}
        return {"by_key": True, "spread_ms": spread_ms}

    def _stores(self, names: tuple[str, str], how: Materialized) -> _Stores:
        """The names of the stores: made of a given name, else of those of the nodes."""
        if how.name is None:
            shared = f"KSTREAM-OUTERSHARED-{names[0].rpartition('-')[2]}"
            records = f"{names[0]}-store", f"{names[1]}-store"
            return _Stores(records, f"{shared}-store", how)
        left, right = (f"{side}-store" for side in self._sides(how.name))
        return _Stores((left, right), f"{how.name}-{self.kind}-shared-join-store", how)

    def _sides(self, given: str) -> tuple[str, str]:
        """The names of both sides, made of a given one."""
        this = "outer-this" if self.kind == "outer" else "this"
        other = "other" if self.kind == "inner" else "outer-other"
        return f"{given}-{this}-join", f"{given}-{other}-join"

    def _records(self, value: Serde[Any]) -> tuple[Serde[Any], Serde[Any], WindowSpec]:
        """Keys, values and windows of the store of one side's records."""
        windows = self.windows
        key = attrs.evolve(
            row_keys(self.key), name=f"joined in rows of {windows.bucket_ms} ms: {self.key.name}"
        )
        window = WindowSpec(
            self.key,
            windows.text,
            windows.kept_ms,
            windows.size_ms,
            windows.grace_ms,
            windows.bucket_ms,
        )
        return key, kept_rows(value), window

    def _keeping(self, store: str, side: int, as_read: bool) -> Make:
        """Makes the operator that stores the records of a side (0: left)."""
        return lambda context: Keep(context.store(store), self.values[side], as_read)

    def _side(self, side: int) -> Side:
        windows = self.windows if side == 0 else self.windows.mirrored
        given = map(self.joiner.given, map(owner, (self.values[side], self.values[1 - side])))
        return Side(side == 0, windows.before_ms, windows.after_ms, self.joiner, *given)

    def _matching(
        self, other: str, side: int, but_itself: bool = False
    ) -> Callable[[TaskContext], MatchRecords]:
        """Makes the operator of an inner join for a side."""
        view = self._side(side)
        return lambda context: MatchRecords(view, context.store(other), but_itself)

    def _waiting(self, name: str, other: str, unmatched: str, side: int) -> Make:
        """Makes the operator of a left or outer join for a side."""
        view, waits = self._side(side), side == 0 or self.kind == "outer"
        values = self.values[side], self.values[1 - side]
        copies = copier(values[0]), copier(values[1])

        def make(context: TaskContext) -> MatchOrWait:
            return MatchOrWait(
                view,
                waits,
                self.windows.grace_ms,
                context.store(other),
                context.store(unmatched),
                self.key,
                values,
                copies,
                lambda count: context.dropped(name, count),
                Looks(context, self.windows.interval_ms),
                context.failures,
                name,
            )

        return make
