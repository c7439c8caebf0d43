"""Finds the aggregations that Spark SQL may do, because it ends with the same value per key.

All of a topology or nothing: what goes around an aggregation would have to be read a second time.
Count, sum, smallest and largest do not depend on the order of the records, as long as the values
are whole numbers (or, of the last two, text or bytes). What stands in front is run by Python as
ever, so records that fail meet the error policy; behind, nothing may see more than the last value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import attrs

from streamlet.dsl.aggregates import Aggregation, MadeOf
from streamlet.dsl.expressions import Function, compiled, type_of
from streamlet.dsl.folds.stream_folds import Aggregate, Count
from streamlet.dsl.operators.nulls import SkipNulls
from streamlet.errors import SerdeError
from streamlet.processing.policy import ErrorPolicy
from streamlet.serdes import Serde
from streamlet.serdes import serde as serde_of
from streamlet.topology.graph import Topology
from streamlet.topology.nodes import ProcessorNode, SinkNode
from streamlet.topology.subtopologies import Subtopology

_AGGREGATE = "KSTREAM-AGGREGATE-"
_TO_STREAM = "KTABLE-TOSTREAM-"

#: Of what an aggregation may be. Floats are not: their sum depends on the order, and NaN and the
#: two zeros make the smallest and largest depend on it, too.
_FIT: Mapping[str, tuple[type, ...]] = {
    "sum": (int, bool),
    "min": (int, str, bytes),
    "max": (int, str, bytes),
}


@attrs.frozen(eq=False)
class Slot:
    """One number, or smallest or largest value, per key."""

    kind: Literal["count", "sum", "min", "max"]
    #: Type of its values.
    values: type = int
    of: Function | None = None

    @property
    def text(self) -> str:
        """The slot as text."""
        return self.kind if self.of is None else f"{self.kind} {self.values.__name__}"

    @property
    def result(self) -> type:
        """The type of its result."""
        return int if self.kind in ("count", "sum") else self.values


@attrs.frozen(eq=False)
class Fold:
    """One aggregation with all that it takes to do it."""

    subtopology: Subtopology
    node: ProcessorNode
    slots: tuple[Slot, ...]
    #: Of the results in a dict; None where the result is one value.
    names: tuple[str, ...] | None
    key: Serde[Any]
    value: Serde[Any]
    sinks: tuple[SinkNode, ...]

    @property
    def text(self) -> str:
        """The aggregation in a line; a checkpoint keeps it."""
        kinds = [one.text for one in self]
        if self.names is None:
            return kinds[0]
        return ", ".join(f"{name}: {kind}" for name, kind in zip(self.names, kinds, strict=True))

    def __iter__(self) -> Iterator[Slot]:
        return iter(self.slots)


class Unfit(Exception):
    """Spark SQL would not be equal; the message names the operator and says why."""


def folds(topology: Topology, policy: ErrorPolicy) -> tuple[Fold, ...]:
    """The aggregations of a topology, if all that is stateful in it may be done by Spark SQL.

    Raises:
        Unfit: it may not.
    """
    parts = topology.subtopologies
    stateful = [(part, node) for part in parts for node in part.processors if node.stores]
    found = tuple(_fold(part, node) for part, node in stateful)
    if not found:
        raise Unfit("there is no aggregation")
    if policy.topics:
        topics = ", ".join(sorted(policy.topics))
        raise Unfit(f"dead letters go to {topics}, and Spark SQL writes only results")
    if policy.asks:
        raise Unfit("an error handler may write dead letters, and Spark SQL writes only results")
    results = [sink.topic for fold in found for sink in fold.sinks]
    ours = {sink.name for fold in found for sink in fold.sinks}
    for part in topology.subtopologies:
        for sink in part.sinks:
            if sink.by_record:
                raise Unfit(f"{sink.name} writes a topic that is chosen for each record")
            if sink.name not in ours and sink.topic not in topology.repartition_topics:
                raise Unfit(f"{sink.name} writes {sink.topic} and is no aggregation's result")
    read = {topic for part in topology.subtopologies for topic in part.input_topics}
    for topic in results:
        if results.count(topic) > 1:
            raise Unfit(f"several nodes write {topic}, and Spark SQL would change their order")
        if topic in read:
            raise Unfit(f"the application reads {topic}, to which Spark SQL writes fewer updates")
    return found


def _fold(subtopology: Subtopology, node: ProcessorNode) -> Fold:
    if not node.name.startswith(_AGGREGATE):
        raise Unfit(f"{node.name} keeps state and is not count(), nor an aggregate of expressions")
    for other in subtopology.processors:
        if other.name != node.name and set(other.stores) & set(node.stores):
            raise Unfit(f"{other.name} uses the store of {node.name}")
    if subtopology.store(node.stores[0]).ttl_ms is not None:
        raise Unfit(f"rows of {node.name} expire (ttl=), by the times of the records before")
    context: Any = Storeless()
    operator = node.factory(context)
    inner = operator.inner if isinstance(operator, SkipNulls) else operator
    spec = subtopology.store(node.stores[0])
    value, made = spec.value, None
    if isinstance(inner, Count):
        names: tuple[str, ...] | None = None
        slots: tuple[Slot, ...] = (Slot("count"),)
    else:
        made = getattr(inner.aggregator, "made_of", None) if isinstance(inner, Aggregate) else None
        if not isinstance(made, MadeOf):
            raise Unfit(f"{node.name} is given as a function, not as expressions")
        names, slots = _slots(node, made)
    if names is not None and any(slot.result is bytes for slot in slots) and is_ours(value, dict):
        raise Unfit(f"{node.name}: bytes in a dict, which JSON does not have")
    kept = (slots[0].result,) if made is None or names is None else (made.kept, dict)
    if not any(is_ours(value, of) for of in kept):
        raise Unfit(f"{node.name} keeps its {kept[-1].__name__} as {value.name}")
    return Fold(
        subtopology, node, slots, names, spec.key, value, _sinks(subtopology, node, spec.key)
    )


def _slots(node: ProcessorNode, made: MadeOf) -> tuple[tuple[str, ...] | None, tuple[Slot, ...]]:
    wanted = made.wanted
    single = isinstance(wanted, Aggregation)
    parts = {"": wanted} if isinstance(wanted, Aggregation) else wanted
    slots = tuple(_slot(node, one, made) for one in parts.values())
    return None if single else tuple(parts), slots


def _slot(node: ProcessorNode, one: Aggregation, made: MadeOf) -> Slot:
    if one.of is None:
        return Slot("count")
    of = type_of(one.of, made.key_type, made.value_type)
    kind = one.kind
    if kind != "sum" and kind != "min" and kind != "max":
        raise Unfit(f"{node.name}: {kind}() of an expression is not done by Spark SQL")
    fit = _FIT[kind]
    if not any(of is known for known in fit):
        names = ", ".join(known.__name__ for known in fit)
        what = getattr(of, "__name__", "an unknown type") if isinstance(of, type) else "any type"
        raise Unfit(f"{node.name}: a {kind} of {what}; equal are those of {names}")
    return Slot(kind, of, compiled(one.of, made.value_type))


def _sinks(subtopology: Subtopology, node: ProcessorNode, key: Serde[Any]) -> tuple[SinkNode, ...]:
    """The sinks of its results, if nothing between sees every update."""
    found: list[SinkNode] = []
    waiting = list(subtopology.children(node.name))
    while waiting:
        below = subtopology.node(waiting.pop(0))
        if isinstance(below, SinkNode):
            found.append(_fit_sink(subtopology, below, key))
        elif below.name.startswith(_TO_STREAM):
            waiting += subtopology.children(below.name)
        else:
            raise Unfit(f"{below.name} behind {node.name} sees every update")
    return tuple(found)


def _fit_sink(subtopology: Subtopology, sink: SinkNode, key: Serde[Any]) -> SinkNode:
    if sink.chooses_partitions:
        raise Unfit(f"{sink.name} chooses partitions")
    alike = bool(key.accepts) and (sink.key.name, sink.key.accepts) == (key.name, key.accepts)
    if sink.key is not key and not alike:
        raise Unfit(f"{sink.name} writes keys as {sink.key.name}, and they are kept as {key.name}")
    return sink


def is_ours(serde: Serde[Any], of: Any) -> bool:
    """True if it is our own serde of this type."""
    try:
        ours = serde_of(of)
    except SerdeError:
        return False
    alike = (ours.name, ours.accepts, ours.declared) == (serde.name, serde.accepts, serde.declared)
    return alike and bool(ours.accepts)


class Storeless:
    """A task without stores, for operators that are built but not run."""

    application = ""

    def store(self, name: str) -> None:
        """Raise: there is no store."""

    def late(self, operator: str, count: int) -> None:
        """Do nothing: no task runs."""

    def dropped(self, operator: str, count: int) -> None:
        """Do nothing: no task runs."""
