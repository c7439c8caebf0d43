"""The stores of tables and of processors, which keep a history if they are asked for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.graph.durations import milliseconds
from streamlet.dsl.graph.materialized import Materialized, StoreLike
from streamlet.serdes import Serde
from streamlet.state.store_specs import StoreSpec, VersionSpec
from streamlet.state.version_rows import version_rows
from streamlet.state.window_rows import row_keys


def table_store(
    builder: Builder,
    call: str,
    store: StoreLike,
    prefix: str,
    serdes: tuple[Serde[Any], Serde[Any]],
    source_topic: str | None = None,
    extractor: tuple[Callable[..., int], bool] | None = None,
    shown: Callable[..., Any] | None = None,
) -> StoreSpec:
    """Add a store that is versioned if its history is asked for, of a table or of processors.

    A versioned one has a changelog of its own: its topic may be compacted.

    Raises:
        TopologyError: the history is no duration.
    """
    history = Materialized.of(store).history
    if history is None:
        how: dict[str, Any] = {"extractor": extractor, "shown": shown}
        return builder.store(store, prefix, *serdes, source_topic, **how)
    key, value = serdes
    versions = VersionSpec(key, value, milliseconds(f"{call}: history", history))
    row_key = attrs.evolve(row_keys(key), name=f"versions of {key.name}")
    rows = version_rows(value)
    return builder.store(store, prefix, row_key, rows, versions=versions, shown=shown)
