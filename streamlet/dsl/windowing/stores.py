"""The store, the operator and the merger of an aggregation of windows."""

from __future__ import annotations

from typing import Any

import attrs

from streamlet.config.values import duration
from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.graph.functions import check_takes
from streamlet.dsl.graph.materialized import Materialized, StoreLike
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.windowing.folding import BoundFolding
from streamlet.dsl.windowing.session_windowed import SessionWindowed
from streamlet.dsl.windowing.sliding_windowed import SlidingWindowed
from streamlet.dsl.windowing.time_windowed import TimeWindowed
from streamlet.dsl.windowing.varying_windows import VaryingWindows
from streamlet.dsl.windowing.windows import SessionWindows, SlidingWindows, TimeWindows, Windows
from streamlet.errors import TopologyError
from streamlet.serdes import Serde
from streamlet.state.bucket_store import bucket_rows
from streamlet.state.store_specs import StoreSpec, WindowSpec
from streamlet.state.window_rows import row_keys
from streamlet.topology.operator import Operator, TaskContext
from streamlet.user_code import shown


@attrs.frozen
class WindowStoreOf:
    """The store of an aggregation: its windows, whether results are final, keys and values."""

    windows: Windows
    final: bool
    key: Serde[Any]
    value: Serde[Any]

    def added(self, builder: Builder, call: str, prefix: str, store: StoreLike) -> StoreSpec:
        """Add it to the topology.

        Raises:
            TopologyError: the retention is no duration, or too short.
        """
        windows = self.windows
        return builder.store(
            store,
            prefix,
            attrs.evolve(row_keys(self.key), name=f"{windows.format} of {self.key.name}"),
            bucket_rows(self.value) if windows.bucket_ms else self.value,
            window=self._spec(call, Materialized.of(store).retention),
        )

    def _spec(self, call: str, wanted: Any) -> WindowSpec:
        windows = self.windows
        least, retention = windows.kept_ms, windows.kept_ms
        if self.final and isinstance(windows, TimeWindows | VaryingWindows):
            retention = windows.kept_for_results_ms
        if wanted is not None:
            try:
                retention = duration().parse(wanted)
            except ValueError as error:
                raise TopologyError(f"{call}: retention {shown(wanted)}: {error}") from error
            if least is None or retention < least:
                shortest = "for ever" if least is None else f"for {least} ms"
                raise TopologyError(
                    f"{call}: a retention of {retention} ms is too short: these windows take "
                    f"records {shortest}"
                )
        return WindowSpec(
            self.key,
            f"{windows.format}, final results" if self.final else windows.format,
            retention,
            windows.length_ms,
            windows.grace_ms,
            windows.bucket_ms,
            self.final,
            windows.end_of if isinstance(windows, VaryingWindows) else None,
            self.value,
        )


def window_operator(
    name: str,
    context: TaskContext,
    spec: StoreSpec,
    windows: Windows,
    folding: BoundFolding,
    use: TableUse,
    stream: int = 0,
) -> Operator:
    """The operator that folds records of a stream into the windows of a store."""
    store = context.store(spec.name)
    if isinstance(windows, SessionWindows):
        return SessionWindowed(name, context, store, windows, folding, use, stream)
    if isinstance(windows, SlidingWindows):
        return SlidingWindowed(name, context, store, windows, folding, use, stream)
    return TimeWindowed(name, context, store, windows, folding, use, stream)


def skipped_nulls(windows: Windows) -> str:
    """The parts that a record must have for these windows to take it.

    As in Kafka Streams, sliding windows take no record without a value, and all others do.
    """
    return "key value" if isinstance(windows, SlidingWindows) else "key"


def check_merger(windows: Windows, merger: Any) -> None:
    """Raise ``TopologyError`` unless there is a merger exactly where windows merge."""
    sessions = isinstance(windows, SessionWindows)
    if sessions and merger is None:
        raise TopologyError(
            "aggregate(): sessions merge, so it needs a merger behind its other functions: "
            "(key, aggregate, aggregate) -> aggregate"
        )
    if sessions:
        check_takes("aggregate()", merger, "key", "aggregate", "aggregate")
    elif merger is not None:
        raise TopologyError("aggregate(): only sessions merge, so it takes no merger here")
