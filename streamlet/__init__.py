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
    from streamlet import serdes, spark
    from streamlet.app import App, load_app
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
    from streamlet.dsl.custom_stores import LruStore
    from streamlet.dsl.determinism import non_deterministic
    from streamlet.dsl.expressions import col, key, lit, value
    from streamlet.dsl.global_table import GlobalKTable
    from streamlet.dsl.grouped import KGroupedStream
    from streamlet.dsl.grouped_table import KGroupedTable
    from streamlet.dsl.join_windows import join_windows
    from streamlet.dsl.keyed_state import State, Timer
    from streamlet.dsl.late_records import LateRecord
    from streamlet.dsl.materialized import Materialized
    from streamlet.dsl.partition_time import with_partition_time
    from streamlet.dsl.processor import Processor, ProcessorContext
    from streamlet.dsl.processor_record import Record, RecordMetadata
    from streamlet.dsl.punctuators import Cancellable
    from streamlet.dsl.record_context import RecordContext, with_context
    from streamlet.dsl.state_stores import (
        StoreBuilder,
        custom_store,
        key_value_store,
        lru_store,
        session_store,
        timestamped_store,
        versioned_store,
        window_store,
    )
    from streamlet.dsl.store_views import (
        KeyValueStore,
        TimestampedStore,
        ValueAndTimestamp,
        VersionedKeyValueStore,
    )
    from streamlet.dsl.stream import KStream
    from streamlet.dsl.suppress import until_time_limit, until_window_closes
    from streamlet.dsl.table import KTable
    from streamlet.dsl.window_definitions import calendar, custom_windows
    from streamlet.dsl.window_views import SessionStore, WindowStore
    from streamlet.dsl.windowed import WindowedKStream
    from streamlet.dsl.windows import hopping, session, sliding, tumbling, unlimited
    from streamlet.errors import StreamletError
    from streamlet.origins import Origin, RepeatFilter, without_repeats
    from streamlet.processing.policy import (
        Answer,
        ErrorContext,
        FailedRecord,
        Retry,
        UncaughtAnswer,
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

__all__ = [
    "App",
    "Answer",
    "ErrorContext",
    "FailedRecord",
    "Retry",
    "Processor",
    "ProcessorContext",
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
    "GlobalKTable",
    "BranchedKStream",
    "CogroupedKStream",
    "Consumer",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "LateRecord",
    "Materialized",
    "Origin",
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
    "col",
    "count",
    "hopping",
    "join_windows",
    "json",
    "key",
    "lit",
    "load_app",
    "collect",
    "distinct",
    "first",
    "last",
    "mean",
    "max_",
    "min_",
    "non_deterministic",
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
    "Processor": "streamlet.dsl.processor",
    "ProcessorContext": "streamlet.dsl.processor",
    "Cancellable": "streamlet.dsl.punctuators",
    "Record": "streamlet.dsl.processor_record",
    "RecordMetadata": "streamlet.dsl.processor_record",
    "KeyValueStore": "streamlet.dsl.store_views",
    "TimestampedStore": "streamlet.dsl.store_views",
    "ValueAndTimestamp": "streamlet.dsl.store_views",
    "WindowStore": "streamlet.dsl.window_views",
    "SessionStore": "streamlet.dsl.window_views",
    "LruStore": "streamlet.dsl.custom_stores",
    "window_store": "streamlet.dsl.state_stores",
    "session_store": "streamlet.dsl.state_stores",
    "lru_store": "streamlet.dsl.state_stores",
    "custom_store": "streamlet.dsl.state_stores",
    "State": "streamlet.dsl.keyed_state",
    "Timer": "streamlet.dsl.keyed_state",
    "StoreBuilder": "streamlet.dsl.state_stores",
    "key_value_store": "streamlet.dsl.state_stores",
    "timestamped_store": "streamlet.dsl.state_stores",
    "versioned_store": "streamlet.dsl.state_stores",
    "VersionedKeyValueStore": "streamlet.dsl.store_views",
    "VersionedRecord": "streamlet.state.version_rows",
    "GlobalKTable": "streamlet.dsl.global_table",
    "App": "streamlet.app",
    "BranchedKStream": "streamlet.dsl.branched",
    "CogroupedKStream": "streamlet.dsl.cogrouped",
    "Consumer": "streamlet.consumer",
    "KGroupedStream": "streamlet.dsl.grouped",
    "KGroupedTable": "streamlet.dsl.grouped_table",
    "KStream": "streamlet.dsl.stream",
    "KTable": "streamlet.dsl.table",
    "LateRecord": "streamlet.dsl.late_records",
    "Materialized": "streamlet.dsl.materialized",
    "Origin": "streamlet.origins",
    "RecordContext": "streamlet.dsl.record_context",
    "RepeatFilter": "streamlet.origins",
    "Serde": "streamlet.serdes",
    "StateRestoreListener": "streamlet.runtime.listeners",
    "StreamletError": "streamlet.errors",
    "Windowed": "streamlet.serdes",
    "WindowedCogroupedKStream": "streamlet.dsl.cogrouped",
    "WindowedKStream": "streamlet.dsl.windowed",
    "avro": "streamlet.serdes",
    "col": "streamlet.dsl.expressions",
    "count": "streamlet.dsl.aggregates",
    "hopping": "streamlet.dsl.windows",
    "join_windows": "streamlet.dsl.join_windows",
    "json": "streamlet.serdes",
    "key": "streamlet.dsl.expressions",
    "lit": "streamlet.dsl.expressions",
    "load_app": "streamlet.app",
    "collect": "streamlet.dsl.aggregates",
    "distinct": "streamlet.dsl.aggregates",
    "first": "streamlet.dsl.aggregates",
    "last": "streamlet.dsl.aggregates",
    "mean": "streamlet.dsl.aggregates",
    "max_": "streamlet.dsl.aggregates",
    "min_": "streamlet.dsl.aggregates",
    "non_deterministic": "streamlet.dsl.determinism",
    "serde": "streamlet.serdes",
    "session": "streamlet.dsl.windows",
    "session_windowed": "streamlet.serdes",
    "sliding": "streamlet.dsl.windows",
    "sum_": "streamlet.dsl.aggregates",
    "time_windowed": "streamlet.serdes",
    "tumbling": "streamlet.dsl.windows",
    "calendar": "streamlet.dsl.window_definitions",
    "custom_windows": "streamlet.dsl.window_definitions",
    "unlimited": "streamlet.dsl.windows",
    "until_time_limit": "streamlet.dsl.suppress",
    "until_window_closes": "streamlet.dsl.suppress",
    "value": "streamlet.dsl.expressions",
    "windowed_json": "streamlet.serdes",
    "with_context": "streamlet.dsl.record_context",
    "with_partition_time": "streamlet.dsl.partition_time",
    "without_repeats": "streamlet.origins",
}


def __getattr__(name: str) -> Any:
    if name in ("serdes", "spark"):  # a room, not a name of one
        return import_module(f"streamlet.{name}")
    found = globals()[name] = load_name(__name__, _HOMES, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
