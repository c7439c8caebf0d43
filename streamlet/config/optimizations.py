"""The values of ``topology.optimization``, which are Kafka Streams'."""

from __future__ import annotations

from collections.abc import Sequence

from streamlet.config.values import ValueKind

MERGE_REPARTITION_TOPICS = "merge.repartition.topics"
SINGLE_STORE_SELF_JOIN = "single.store.self.join"
REUSE_KTABLE_SOURCE_TOPICS = "reuse.ktable.source.topics"

#: All optimisations, in the order in which they are printed.
OPTIMIZATIONS = (MERGE_REPARTITION_TOPICS, REUSE_KTABLE_SOURCE_TOPICS, SINGLE_STORE_SELF_JOIN)


def optimizations() -> ValueKind[tuple[str, ...]]:
    """None, all, or some optimisations, as a sequence or joined by commas."""
    names = ", ".join(OPTIMIZATIONS)

    def parse(value: object) -> tuple[str, ...]:
        parts = value.split(",") if isinstance(value, str) else value
        if isinstance(parts, Sequence) and all(isinstance(part, str) for part in parts):
            words = {part.strip().lower() for part in parts}
            if words <= {"none"}:
                return ()
            if words == {"all"}:
                return OPTIMIZATIONS
            if words <= {*OPTIMIZATIONS}:
                return tuple(name for name in OPTIMIZATIONS if name in words)
        raise ValueError(f"expected none or all, or some of {names}, joined by commas")

    shown = ", ".join(f"`{name}`" for name in OPTIMIZATIONS)
    return ValueKind(f"`none`, `all`, or some of {shown} joined by commas", parse)
