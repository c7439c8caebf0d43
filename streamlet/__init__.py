"""Elastic, stateful stream processing on Apache Kafka.

    import streamlet as sl

    app = sl.App("words", bootstrap_servers="localhost:9092")
    lines = app.stream("lines", key=bytes, value=str)
    words = lines.flat_map_values(str.split).group_by(lambda _, word: word)
    words.count(store="counts").to_stream().to("counts")
    app.run()

What is listed here is the public interface. It is loaded when it is first asked for, so that parts
of the package can be used without the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamlet.lazy_names import load_name

if TYPE_CHECKING:
    from streamlet import registry, serdes, spark
    from streamlet.app import App, load_app
    from streamlet.change_events import ChangeEvent, Debezium, debezium
    from streamlet.consumer import Consumer
    from streamlet.dsl.aggregates import (
        collect,
        count,
        distinct,
        first,
        last,
        max_,
        mean,
        min_,
        sum_,
    )
    from streamlet.dsl.branched import BranchedKStream
    from streamlet.dsl.cogrouped import CogroupedKStream, WindowedCogroupedKStream
    from streamlet.dsl.determinism import non_deterministic
    from streamlet.dsl.expressions import col, key, lit, value
    from streamlet.dsl.global_table import GlobalKTable
    from streamlet.dsl.graph.materialized import Materialized
    from streamlet.dsl.graph.record_context import RecordContext, with_context
    from streamlet.dsl.grouped import KGroupedStream
    from streamlet.dsl.grouped_table import KGroupedTable
    from streamlet.dsl.joins.windows import join_windows
    from streamlet.dsl.operators.record_batch import FailedAt, RecordBatch
    from streamlet.dsl.partition_time import with_partition_time
    from streamlet.dsl.processors.custom_stores import LruStore
    from streamlet.dsl.processors.keyed_state import State, Timer
    from streamlet.dsl.processors.processor import Processor, ProcessorContext
    from streamlet.dsl.processors.punctuators import Cancellable
    from streamlet.dsl.processors.record import Record, RecordMetadata
    from streamlet.dsl.processors.store_builders import (
        StoreBuilder,
        custom_store,
        key_value_store,
        lru_store,
        session_store,
        timestamped_store,
        versioned_store,
        window_store,
    )
    from streamlet.dsl.processors.store_views import (
        KeyValueStore,
        TimestampedStore,
        ValueAndTimestamp,
        VersionedKeyValueStore,
    )
    from streamlet.dsl.processors.window_views import SessionStore, WindowStore
    from streamlet.dsl.processors.wrapping import ProcessorWrapper
    from streamlet.dsl.stream import KStream
    from streamlet.dsl.suppressing.until import until_time_limit, until_window_closes
    from streamlet.dsl.table import KTable
    from streamlet.dsl.windowed import WindowedKStream
    from streamlet.dsl.windowing.definitions import (
        calendar,
        custom_windows,
        hopping,
        session,
        sliding,
        tumbling,
        unlimited,
    )
    from streamlet.dsl.windowing.late_records import LateRecord
    from streamlet.errors import StreamletError
    from streamlet.origins import Origin, RepeatFilter, without_repeats
    from streamlet.processing.policy import (
        Answer,
        ErrorContext,
        FailedRecord,
        Retry,
        UncaughtAnswer,
    )
    from streamlet.queries.position import Position, PositionBound
    from streamlet.queries.requests import (
        KeyQuery,
        MultiVersionedKeyQuery,
        RangeQuery,
        SessionKeyQuery,
        StateQueryRequest,
        StateQueryResult,
        TimestampedKeyQuery,
        TimestampedRangeQuery,
        VersionedKeyQuery,
        WindowKeyQuery,
        WindowRangeQuery,
    )
    from streamlet.runtime.listeners import StateRestoreListener
    from streamlet.serdes import (
        Serde,
        Windowed,
        avro,
        json,
        serde,
        session_windowed,
        time_windowed,
        windowed_json,
    )
    from streamlet.state.version_rows import VersionedRecord
    from streamlet.topology.nodes import by_duration
    from streamlet.web.client import connect

__all__ = [
    "App",
    "Answer",
    "ErrorContext",
    "FailedRecord",
    "Retry",
    "Processor",
    "ProcessorContext",
    "ProcessorWrapper",
    "Cancellable",
    "Record",
    "RecordMetadata",
    "KeyValueStore",
    "TimestampedStore",
    "ValueAndTimestamp",
    "State",
    "Timer",
    "StoreBuilder",
    "session_store",
    "lru_store",
    "custom_store",
    "window_store",
    "SessionStore",
    "LruStore",
    "WindowStore",
    "key_value_store",
    "timestamped_store",
    "versioned_store",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "Position",
    "PositionBound",
    "KeyQuery",
    "MultiVersionedKeyQuery",
    "RangeQuery",
    "SessionKeyQuery",
    "StateQueryRequest",
    "StateQueryResult",
    "TimestampedKeyQuery",
    "TimestampedRangeQuery",
    "VersionedKeyQuery",
    "WindowKeyQuery",
    "WindowRangeQuery",
    "GlobalKTable",
    "BranchedKStream",
    "CogroupedKStream",
    "ChangeEvent",
    "Consumer",
    "Debezium",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "LateRecord",
    "Materialized",
    "Origin",
    "RecordBatch",
    "FailedAt",
    "RecordContext",
    "RepeatFilter",
    "Serde",
    "StateRestoreListener",
    "StreamletError",
    "UncaughtAnswer",
    "Windowed",
    "WindowedCogroupedKStream",
    "WindowedKStream",
    "avro",
    "by_duration",
    "col",
    "count",
    "hopping",
    "join_windows",
    "json",
    "key",
    "lit",
    "load_app",
    "collect",
    "connect",
    "distinct",
    "first",
    "last",
    "mean",
    "max_",
    "min_",
    "debezium",
    "non_deterministic",
    "registry",
    "serde",
    "serdes",
    "session",
    "session_windowed",
    "sliding",
    "spark",
    "sum_",
    "time_windowed",
    "calendar",
    "custom_windows",
    "tumbling",
    "unlimited",
    "until_time_limit",
    "until_window_closes",
    "value",
    "windowed_json",
    "with_context",
    "with_partition_time",
    "without_repeats",
]

_HOMES = {
    "Answer": "streamlet.processing.policy",
    "ErrorContext": "streamlet.processing.policy",
    "FailedRecord": "streamlet.processing.policy",
    "Retry": "streamlet.processing.policy",
    "UncaughtAnswer": "streamlet.processing.policy",
    "Processor": "streamlet.dsl.processors.processor",
    "ProcessorContext": "streamlet.dsl.processors.processor",
    "ProcessorWrapper": "streamlet.dsl.processors.wrapping",
    "Cancellable": "streamlet.dsl.processors.punctuators",
    "Record": "streamlet.dsl.processors.record",
    "RecordMetadata": "streamlet.dsl.processors.record",
    "KeyValueStore": "streamlet.dsl.processors.store_views",
    "TimestampedStore": "streamlet.dsl.processors.store_views",
    "ValueAndTimestamp": "streamlet.dsl.processors.store_views",
    "WindowStore": "streamlet.dsl.processors.window_views",
    "SessionStore": "streamlet.dsl.processors.window_views",
    "LruStore": "streamlet.dsl.processors.custom_stores",
    "window_store": "streamlet.dsl.processors.store_builders",
    "session_store": "streamlet.dsl.processors.store_builders",
    "lru_store": "streamlet.dsl.processors.store_builders",
    "custom_store": "streamlet.dsl.processors.store_builders",
    "State": "streamlet.dsl.processors.keyed_state",
    "Timer": "streamlet.dsl.processors.keyed_state",
    "StoreBuilder": "streamlet.dsl.processors.store_builders",
    "key_value_store": "streamlet.dsl.processors.store_builders",
    "timestamped_store": "streamlet.dsl.processors.store_builders",
    "versioned_store": "streamlet.dsl.processors.store_builders",
    "VersionedKeyValueStore": "streamlet.dsl.processors.store_views",
    "VersionedRecord": "streamlet.state.version_rows",
    "Position": "streamlet.queries.position",
    "PositionBound": "streamlet.queries.position",
    "KeyQuery": "streamlet.queries.requests",
    "MultiVersionedKeyQuery": "streamlet.queries.requests",
    "RangeQuery": "streamlet.queries.requests",
    "SessionKeyQuery": "streamlet.queries.requests",
    "StateQueryRequest": "streamlet.queries.requests",
    "StateQueryResult": "streamlet.queries.requests",
    "TimestampedKeyQuery": "streamlet.queries.requests",
    "TimestampedRangeQuery": "streamlet.queries.requests",
    "VersionedKeyQuery": "streamlet.queries.requests",
    "WindowKeyQuery": "streamlet.queries.requests",
    "WindowRangeQuery": "streamlet.queries.requests",
    "GlobalKTable": "streamlet.dsl.global_table",
    "App": "streamlet.app",
    "BranchedKStream": "streamlet.dsl.branched",
    "CogroupedKStream": "streamlet.dsl.cogrouped",
    "ChangeEvent": "streamlet.change_events",
    "Consumer": "streamlet.consumer",
    "Debezium": "streamlet.change_events",
    "debezium": "streamlet.change_events",
    "KGroupedStream": "streamlet.dsl.grouped",
    "KGroupedTable": "streamlet.dsl.grouped_table",
    "KStream": "streamlet.dsl.stream",
    "KTable": "streamlet.dsl.table",
    "LateRecord": "streamlet.dsl.windowing.late_records",
    "Materialized": "streamlet.dsl.graph.materialized",
    "Origin": "streamlet.origins",
    "RecordBatch": "streamlet.dsl.operators.record_batch",
    "FailedAt": "streamlet.dsl.operators.record_batch",
    "RecordContext": "streamlet.dsl.graph.record_context",
    "RepeatFilter": "streamlet.origins",
    "Serde": "streamlet.serdes",
    "StateRestoreListener": "streamlet.runtime.listeners",
    "StreamletError": "streamlet.errors",
    "Windowed": "streamlet.serdes",
    "WindowedCogroupedKStream": "streamlet.dsl.cogrouped",
    "WindowedKStream": "streamlet.dsl.windowed",
    "avro": "streamlet.serdes",
    "by_duration": "streamlet.topology.nodes",
    "col": "streamlet.dsl.expressions",
    "count": "streamlet.dsl.aggregates",
    "hopping": "streamlet.dsl.windowing.definitions",
    "join_windows": "streamlet.dsl.joins.windows",
    "json": "streamlet.serdes",
    "key": "streamlet.dsl.expressions",
    "lit": "streamlet.dsl.expressions",
    "load_app": "streamlet.app",
    "collect": "streamlet.dsl.aggregates",
    "connect": "streamlet.web.client",
    "distinct": "streamlet.dsl.aggregates",
    "first": "streamlet.dsl.aggregates",
    "last": "streamlet.dsl.aggregates",
    "mean": "streamlet.dsl.aggregates",
    "max_": "streamlet.dsl.aggregates",
    "min_": "streamlet.dsl.aggregates",
    "non_deterministic": "streamlet.dsl.determinism",
    "serde": "streamlet.serdes",
    "session": "streamlet.dsl.windowing.definitions",
    "session_windowed": "streamlet.serdes",
    "sliding": "streamlet.dsl.windowing.definitions",
    "sum_": "streamlet.dsl.aggregates",
    "time_windowed": "streamlet.serdes",
    "tumbling": "streamlet.dsl.windowing.definitions",
    "calendar": "streamlet.dsl.windowing.definitions",
    "custom_windows": "streamlet.dsl.windowing.definitions",
    "unlimited": "streamlet.dsl.windowing.definitions",
    "until_time_limit": "streamlet.dsl.suppressing.until",
    "until_window_closes": "streamlet.dsl.suppressing.until",
    "value": "streamlet.dsl.expressions",
    "windowed_json": "streamlet.serdes",
    "with_context": "streamlet.dsl.graph.record_context",
    "with_partition_time": "streamlet.dsl.partition_time",
    "without_repeats": "streamlet.origins",
}


def __getattr__(name: str) -> Any:
    if name in ("registry", "serdes", "spark"):  # a room, not a name of one
        return import_module(f"streamlet.{name}")
    if name not in _HOMES and not name.startswith("_"):
        sentence = import_module("streamlet.dsl.absent").elsewhere(name)
        if sentence is not None:
            raise AttributeError(sentence)
    found = globals()[name] = load_name(__name__, _HOMES, name)
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
