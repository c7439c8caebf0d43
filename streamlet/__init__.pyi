"""The public names of the package: what is imported here is loaded when it is first used."""

from streamlet import registry as registry
from streamlet import serdes as serdes
from streamlet import spark as spark
from streamlet.app import App as App
from streamlet.app import load_app as load_app
from streamlet.change_events import ChangeEvent as ChangeEvent
from streamlet.change_events import Debezium as Debezium
from streamlet.change_events import debezium as debezium
from streamlet.consumer import Consumer as Consumer
from streamlet.dsl.aggregates import collect as collect
from streamlet.dsl.aggregates import count as count
from streamlet.dsl.aggregates import distinct as distinct
from streamlet.dsl.aggregates import first as first
from streamlet.dsl.aggregates import last as last
from streamlet.dsl.aggregates import max_ as max_
from streamlet.dsl.aggregates import mean as mean
from streamlet.dsl.aggregates import min_ as min_
from streamlet.dsl.aggregates import sum_ as sum_
from streamlet.dsl.branched import BranchedKStream as BranchedKStream
from streamlet.dsl.cogrouped import CogroupedKStream as CogroupedKStream
from streamlet.dsl.cogrouped import WindowedCogroupedKStream as WindowedCogroupedKStream
from streamlet.dsl.determinism import non_deterministic as non_deterministic
from streamlet.dsl.expressions import col as col
from streamlet.dsl.expressions import key as key
from streamlet.dsl.expressions import lit as lit
from streamlet.dsl.expressions import value as value
from streamlet.dsl.global_table import GlobalKTable as GlobalKTable
from streamlet.dsl.graph.materialized import Materialized as Materialized
from streamlet.dsl.graph.record_context import RecordContext as RecordContext
from streamlet.dsl.graph.record_context import with_context as with_context
from streamlet.dsl.grouped import KGroupedStream as KGroupedStream
from streamlet.dsl.grouped_table import KGroupedTable as KGroupedTable
from streamlet.dsl.joins.windows import join_windows as join_windows
from streamlet.dsl.operators.record_batch import FailedAt as FailedAt
from streamlet.dsl.operators.record_batch import RecordBatch as RecordBatch
from streamlet.dsl.partition_time import with_partition_time as with_partition_time
from streamlet.dsl.processors.custom_stores import LruStore as LruStore
from streamlet.dsl.processors.keyed_state import State as State
from streamlet.dsl.processors.keyed_state import Timer as Timer
from streamlet.dsl.processors.processor import Processor as Processor
from streamlet.dsl.processors.processor import ProcessorContext as ProcessorContext
from streamlet.dsl.processors.punctuators import Cancellable as Cancellable
from streamlet.dsl.processors.record import Record as Record
from streamlet.dsl.processors.record import RecordMetadata as RecordMetadata
from streamlet.dsl.processors.store_builders import StoreBuilder as StoreBuilder
from streamlet.dsl.processors.store_builders import custom_store as custom_store
from streamlet.dsl.processors.store_builders import key_value_store as key_value_store
from streamlet.dsl.processors.store_builders import lru_store as lru_store
from streamlet.dsl.processors.store_builders import session_store as session_store
from streamlet.dsl.processors.store_builders import timestamped_store as timestamped_store
from streamlet.dsl.processors.store_builders import versioned_store as versioned_store
from streamlet.dsl.processors.store_builders import window_store as window_store
from streamlet.dsl.processors.store_views import KeyValueStore as KeyValueStore
from streamlet.dsl.processors.store_views import TimestampedStore as TimestampedStore
from streamlet.dsl.processors.store_views import ValueAndTimestamp as ValueAndTimestamp
from streamlet.dsl.processors.store_views import VersionedKeyValueStore as VersionedKeyValueStore
from streamlet.dsl.processors.window_views import SessionStore as SessionStore
from streamlet.dsl.processors.window_views import WindowStore as WindowStore
from streamlet.dsl.processors.wrapping import ProcessorWrapper as ProcessorWrapper
from streamlet.dsl.stream import KStream as KStream
from streamlet.dsl.suppressing.until import until_time_limit as until_time_limit
from streamlet.dsl.suppressing.until import until_window_closes as until_window_closes
from streamlet.dsl.table import KTable as KTable
from streamlet.dsl.windowed import WindowedKStream as WindowedKStream
from streamlet.dsl.windowing.definitions import calendar as calendar
from streamlet.dsl.windowing.definitions import custom_windows as custom_windows
from streamlet.dsl.windowing.definitions import hopping as hopping
from streamlet.dsl.windowing.definitions import session as session
from streamlet.dsl.windowing.definitions import sliding as sliding
from streamlet.dsl.windowing.definitions import tumbling as tumbling
from streamlet.dsl.windowing.definitions import unlimited as unlimited
from streamlet.dsl.windowing.late_records import LateRecord as LateRecord
from streamlet.errors import StreamletError as StreamletError
from streamlet.origins import Origin as Origin
from streamlet.origins import RepeatFilter as RepeatFilter
from streamlet.origins import without_repeats as without_repeats
from streamlet.processing.policy import Answer as Answer
from streamlet.processing.policy import ErrorContext as ErrorContext
from streamlet.processing.policy import FailedRecord as FailedRecord
from streamlet.processing.policy import Retry as Retry
from streamlet.processing.policy import UncaughtAnswer as UncaughtAnswer
from streamlet.queries.header_queries import (
    TimestampedKeyWithHeadersQuery as TimestampedKeyWithHeadersQuery,
)
from streamlet.queries.header_queries import (
    TimestampedRangeWithHeadersQuery as TimestampedRangeWithHeadersQuery,
)
from streamlet.queries.header_queries import (
    TimestampedSessionKeyWithHeadersQuery as TimestampedSessionKeyWithHeadersQuery,
)
from streamlet.queries.header_queries import (
    TimestampedWindowKeyWithHeadersQuery as TimestampedWindowKeyWithHeadersQuery,
)
from streamlet.queries.header_queries import (
    TimestampedWindowRangeWithHeadersQuery as TimestampedWindowRangeWithHeadersQuery,
)
from streamlet.queries.header_queries import (
    VersionedKeyWithHeadersQuery as VersionedKeyWithHeadersQuery,
)
from streamlet.queries.position import Position as Position
from streamlet.queries.position import PositionBound as PositionBound
from streamlet.queries.requests import KeyQuery as KeyQuery
from streamlet.queries.requests import MultiVersionedKeyQuery as MultiVersionedKeyQuery
from streamlet.queries.requests import RangeQuery as RangeQuery
from streamlet.queries.requests import SessionKeyQuery as SessionKeyQuery
from streamlet.queries.requests import StateQueryRequest as StateQueryRequest
from streamlet.queries.requests import StateQueryResult as StateQueryResult
from streamlet.queries.requests import TimestampedKeyQuery as TimestampedKeyQuery
from streamlet.queries.requests import TimestampedRangeQuery as TimestampedRangeQuery
from streamlet.queries.requests import VersionedKeyQuery as VersionedKeyQuery
from streamlet.queries.requests import WindowKeyQuery as WindowKeyQuery
from streamlet.queries.requests import WindowRangeQuery as WindowRangeQuery
from streamlet.runtime.listeners import StandbyUpdateListener as StandbyUpdateListener
from streamlet.runtime.listeners import StateRestoreListener as StateRestoreListener
from streamlet.serdes import Serde as Serde
from streamlet.serdes import Windowed as Windowed
from streamlet.serdes import avro as avro
from streamlet.serdes import json as json
from streamlet.serdes import serde as serde
from streamlet.serdes import session_windowed as session_windowed
from streamlet.serdes import time_windowed as time_windowed
from streamlet.serdes import windowed_json as windowed_json
from streamlet.state.version_rows import VersionedRecord as VersionedRecord
from streamlet.topology.nodes import by_duration as by_duration
from streamlet.web.client import connect as connect
