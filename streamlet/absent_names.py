"""Names of other libraries that streamlet's objects do not have, and what to do instead.

``ABSENT`` has names of other libraries, ``HABITS`` those of a dict, a frame or a neighbour, and
``FIRST`` what to do before an operator that another class of the DSL has. ``NO_PARTS`` is for
Python's own operators, such as ``[]`` and ``+``. An operator that arrives leaves ``ABSENT``, and
its row in docs/coming-from*.md changes; tests compare the three.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamlet.absent_classes import each

_WINDOWS = (
    "call group_by_key().windowed_by(windows), with streamlet.tumbling(), hopping(), sliding() or "
    "session()"
)
_PROCESSORS = "call process(processor, stores=[...]) on a stream"
_QUERIES = "call App.store(name) while the application runs; the table needs a store="
_GROUP_FIRST = "group the records first, with group_by_key() or group_by(function)"
_STREAM_FIRST = "call to_stream() first, which makes a stream of the table's changes"
_PAIRS = "functions take (key, value): pass one to foreach(), peek() or map()"
_VALUES = "compute the new value with map_values(function)"
_STORES = (
    "operators make their stores: pass store= to table(), count(), reduce() or aggregate(), and "
    "stores= to process()"
)
_METADATA = "call metadata(), which returns the running instances with their members and tasks"
_PAUSES = "run `streamlet pause` and `streamlet resume`, of a whole application or of a part"
_TIMERS = (
    "call context.schedule(interval, 'wall_clock', function) in a processor's init, or give "
    "process() a function on_timer= for timers of keys"
)
_TABLES = "call table(topic) for a topic, or count(), reduce() or aggregate() of grouped records"
_SOURCES = "sources other than topics are not in streamlet yet; write the records to a topic"

_TIME_WINDOWS = each(
    _WINDOWS,
    "windowed_by",
    "tumbling_window",
    "hopping_window",
    "sliding_window",
    "tumbling",
    "hopping",
)

#: Class -> name that it does not have -> what to do instead.
ABSENT: Mapping[str, Mapping[str, str]] = {
    "App": {
        "build": "call topology(), or run `streamlet describe MODULE:APP` to look at it",
        **each("call reset(), or run `streamlet reset`", "clean_up", "clear_state"),
        **each(_STORES, "add_state_store", "add_global_store", "add_read_only_state_store"),
        "add_processor": _PROCESSORS,
        "add_source": _SOURCES,
        "add_sink": "call to(topic) on a stream",
        "query_metadata_for_key": "call metadata_for_key(store, key)",
        "streams_metadata_for_store": "call metadata_for_store(store)",
        **each(_METADATA, "metadata_for_all_streams_clients", "metadata_for_local_threads"),
        "all_local_store_partition_lags": "run `streamlet status`, which shows each task's lag",
        "set_uncaught_exception_handler": "run() raises what ended it, and App(on_error=...) "
        "decides about records that fail",
        "add_stream_thread": "call add_worker()",
        "remove_stream_thread": "call remove_worker()",
        **each(_PAUSES, "pause", "resume", "is_paused"),
        "metrics": "pass metrics_port= to run(), which serves them to Prometheus",
        "dataframe": "call stream(topic, key=..., value=...)",
        "topic": "pass a topic's name and types: stream(topic, key=..., value=...)",
        "get_consumer": "make a streamlet.Consumer(topics, group)",
        "get_producer": "producers are not in streamlet yet; use a Kafka client's own",
        "agent": "call stream(topic, key=..., value=...) and give its operators functions",
        "channel": "channels in memory are not in streamlet yet; write to a topic and read it",
        **each(_TABLES, "Table", "set_table"),
        **each(_TIMERS, "timer", "crontab"),
        **each("`streamlet run MODULE:APP` is the command line", "main", "command"),
    },
    "KStream": {
        **_TIME_WINDOWS,
        **each("call process(processor, stores=[...])", "transform", "flat_transform"),
        **each(
            "call process_values(processor, stores=[...])",
            "transform_values",
            "flat_transform_values",
        ),
        "branch": "call split().branch(predicate), which names the branches",
        "through": "call to(topic) and read it with App.stream(topic), or repartition() for a "
        "topic that streamlet makes",
        "join_interval": "call join(other, joiner, within=streamlet.join_windows(...)), "
        "left_join() or outer_join()",
        "join_asof": "call join(table, joiner, grace=...) with a versioned table, made by "
        "other.to_table(store=streamlet.Materialized(name, history=...))",
        "join_lookup": "call map_values(function) with a function that looks the value up",
        **each("call print()", "print_table"),
        "for_each": "its name is foreach()",
        "concat": "call merge(other)",
        **each(_GROUP_FIRST, "count", "reduce", "aggregate", "cogroup"),
        "apply": "call map_values(function), flat_map_values(function) for several values, or "
        "group_by_key().aggregate() for state",
        "update": "call peek(function), or map_values(function) for a new value",
        **each(_VALUES, "drop", "fill"),
        "to_topic": "call to(topic)",
        "sink": "call to(topic), or foreach(function) to write elsewhere",
        "set_timestamp": "call process(lambda record: record.with_timestamp(ms)), or give "
        "App.stream() timestamp= for the time of what is read",
        "set_headers": "call peek(streamlet.with_context(function)), whose context sets headers",
        **each(_PAIRS, "items", "events"),
        **each("call map_batches(function, max_records=, max_wait=)", "take", "noack_take"),
        "echo": "call to(topic) once for each topic",
    },
    "KTable": {
        **_TIME_WINDOWS,
        "queryable_store_name": "read the property store",
        **each(_STREAM_FIRST, "to", "map", "flat_map", "flat_map_values", "select_key", "peek"),
        **each(_STREAM_FIRST, "foreach", "merge", "repartition", "group_by_key", "print"),
        **each(_QUERIES, "get", "keys", "values", "items"),
    },
    "KGroupedStream": {
        **each(
            "call aggregate() with streamlet.sum_(), min_() or max_(), as in "
            "aggregate(streamlet.sum_(streamlet.value()))",
            "sum",
            "min",
            "max",
        ),
    },
    "WindowedKStream": {
        "suppress": "call count(), reduce() or aggregate() first, which makes a table",
    },
}


_TABLE_FIRST = "call count(), reduce() or aggregate() first, which makes a table"
#: Class -> what to do before an operator that it lacks and another one of the DSL has.
FIRST: Mapping[str, str] = {
    "KStream": "tables have it: call to_table(), or group the records and count() or aggregate()",
    "KTable": _STREAM_FIRST,
    "KGroupedStream": _TABLE_FIRST,
    "KGroupedTable": _TABLE_FIRST,
    "WindowedKStream": _TABLE_FIRST,
    "CogroupedKStream": "call aggregate() first, which makes a table",
    "WindowedCogroupedKStream": "call aggregate() first, which makes a table",
    "GlobalKTable": "streams join with a global table; read the topic by App.table() for operators",
    "BranchedKStream": "default_branch() and no_default_branch() return the branches, each of "
    "them a stream, by their names",
}
#: Operators of streams and tables, grouped ones among them.
_STATELESS = (
    *("deduplicate", "filter", "filter_not", "flat_map", "flat_map_values", "foreach", "map"),
    *("map_batches", "map_values", "map_values_async", "merge", "peek", "print", "select_key"),
    *("split", "to", "repartition", "process", "process_values", "transform_values"),
)
OPERATORS = frozenset(
    (
        *(*_STATELESS, "aggregate", "cogroup", "count", "group_by", "group_by_key", "join"),
        *("left_join", "outer_join", "reduce", "suppress", "to_stream", "to_table", "windowed_by"),
    )
)

_ROWS_FIRST = "group the rows first, with group_by(function)"
_PUT_AT = "call put(key, value, timestamp)"
_PUT, _ALL = "call put(key, value)", "call all(), which gives pairs of key and value"
_CONTEXT_CALLS = ("forward", "store", "schedule", "commit")
_RECORD = "read it of the record that process() is given"
_PARTS_OF_RECORD = each("read it of the record", "key", "value", "timestamp", "headers")
_ORIGIN = "read it of record_metadata, which is None in punctuators"
_OF_TASK = "context.store(builder) gives a processor its store, which has it"
_ENTRIES = {
    **each(_PUT, "set", "add", "insert"),
    **each("call delete(key)", "pop", "remove", "clear", "expire"),
    **each(_ALL, "items", "keys", "values", "scan"),
    "update": "call put_all(pairs)",
    "setdefault": "call put_if_absent(key, value)",
    **each("call get(key), which is None where there is none", "exists", "fetch"),
}
#: Names that frames of pandas and PySpark have, and Series.
_FILTER = "call filter(function), or filter() with an expression such as streamlet.col('x') > 0"
_FOLD = (
    "call aggregate() of grouped records, with streamlet.sum_(), mean(), min_(), max_(), collect() "
    "and their like"
)
_NO_END = "records come without end: print() shows them, and App.run(count=...) returns results"
_KEPT_ORDER = "records keep the order of their partitions; aggregate() can sort what it collects"
_TYPES = "types are those of key= and value= where a topic is read"
_STATE = "give process() a function (record, state), whose state keeps what came before"
_WINDOWED = "call group_by_key().windowed_by(windows)"
_ONCE, _MERGED, _WRITTEN = "call deduplicate(within)", "call merge(other)", "call to(topic)"
_BATCHES, _FLAT = "call map_batches(function)", "call flat_map_values(function)"
_FRAMES = {
    **each(_FILTER, "where", "query", "mask", "isin", "contains", "isnull", "notnull"),
    **each(_VALUES, "select", "with_column", "with_columns", "with_column_renamed", "assign"),
    **each(_VALUES, "rename", "drop", "fill", "fillna", "astype", "cast", "replace", "transform"),
    **each(_FOLD, "agg", "sum", "mean", "avg", "min", "max", "std", "nunique", "value_counts"),
    **each(_NO_END, "head", "tail", "first", "last", "take", "limit", "show", "collect", "sample"),
    **each(_NO_END, "to_pandas", "iterrows", "itertuples", "to_local_iterator", "to_dict", "plot"),
    **each(_KEPT_ORDER, "order_by", "sort", "sort_values", "sort_index", "sort_within_partitions"),
    **each(_ONCE, "drop_duplicates", "distinct", "unique", "duplicated"),
    **each(_TYPES, "columns", "dtypes", "schema", "shape", "index", "print_schema"),
    **each(_STATE, "shift", "diff", "cumsum", "rolling", "lag", "with_state"),
    **each(_MERGED, "union", "union_all", "union_by_name", "append", "concat"),
    **each(_BATCHES, "foreach_batch", "map_in_pandas", "map_in_arrow"),
    **each(_BATCHES, "for_each_batch", "map_partitions", "pipe"),
    **each(_FLAT, "explode", "flatten"),
    **each(_WRITTEN, "write", "write_stream", "sink", "to_csv", "to_parquet", "output"),
    **each(_WINDOWED, "resample", "with_watermark", "window"),
    "iloc": "records have no positions; a function gets key and value",
    "loc": "records have no labels; a function gets key and value",
}
#: Operators that only streams have.
_ON_STREAMS = (_ONCE, _MERGED, _WRITTEN, _BATCHES, _FLAT)
#: What a table answers to these names, by what a stream does; without one as a stream.
_OF_TABLES = {
    _NO_END: "App.store(name).all() reads its rows while the application runs",
    **dict.fromkeys((_STATE, _KEPT_ORDER, _WINDOWED), _STREAM_FIRST),
    _FOLD: _ROWS_FIRST,
}


def _of_tables(said: str) -> str:
    if said in _ON_STREAMS:
        return f"call to_stream() first, then {said.removeprefix('call ')}"
    return _OF_TABLES.get(said, said)


_NULL, _NOT_NULL = "call is_null()", "call is_not_null()"
_SIGNS = "write it with its sign, such as streamlet.col('x') == 1 and streamlet.col('x') + 1"
_LOGIC = "write & for and, | for or, ~ for not"
_EXPRESSIONS = {
    **each(_NULL, "isna", "isnan", "is_none", "is_nan"),
    **each(_NOT_NULL, "notna", "notnull", "is_not_none", "is_not"),
    **each(_SIGNS, "eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "div", "truediv"),
    **each(_LOGIC, "and_", "or_", "not_"),
    **each("it needs no name", "alias", "name", "label"),
    "between": "compare twice: (low <= streamlet.col('x')) & (streamlet.col('x') <= high)",
    "isin": "join comparisons by |, or give the operator a function such as "
    "lambda key, value: value.x in VALUES",
}
_PIPE, _READ = "call pipe_input(topic, key, value)", "call read_output(topic)"
_OF_NAME = "call store(name)"
_DRIVER = {
    **each(_PIPE, "create_input_topic", "pipe_record", "send", "produce", "write", "process"),
    **each(_PIPE, "pipe_key_value_list", "pipe_value_list", "pipe_record_list", "put", "input"),
    **each(_READ, "create_output_topic", "read_record", "read_key_value", "read_value", "read"),
    **each(_READ, "read_records_to_list", "read_key_values_to_list", "read_values_to_list"),
    **each(_READ, "read_key_values_to_map", "get_queue_size", "is_empty", "consume", "output"),
    **each(_OF_NAME, "get_state_store", "get_key_value_store", "get_window_store"),
    **each(_OF_NAME, "get_timestamped_key_value_store", "get_versioned_key_value_store"),
    **each(_OF_NAME, "get_timestamped_window_store", "get_session_store", "stores"),
    "advance_wall_clock_time": "its name is advance_wall_clock",
    "advance_time": "call advance_record_time(by), advance_stream_time(by) or "
    "advance_wall_clock(by)",
    "metrics": "call dropped(), late() and skipped()",
    "run": "each pipe_input() processes all there is to process",
}
_GIVEN = "topics are given to Consumer(topics, group_id)"
_CONSUMER = {
    **each(_GIVEN, "subscribe", "unsubscribe", "subscription", "assign"),
    **each("call poll(), which returns a list of records", "consume", "read", "get", "messages"),
    **each("call position(partition), which is where it reads on", "committed", "offsets"),
}
_RECORDS_OF_CONSUMERS = {
    **each("poll() raises what fails, and gives records only", "error", "err"),
    **each("its time is timestamp, in ms since the epoch", "timestamp_type", "datetime", "time"),
    **each("call len() of key or value, which are bytes", "len", "size", "serialized_value_size"),
    "serialized_key_size": "call len() of key, which is bytes",
    **each("decode the bytes of value: json.loads(record.value)", "json", "decode", "deserialize"),
}
_BOUNDS = {
    **each("the bounds of the window are start and end, in ms", "window", "windows"),
    **each("read start, in ms since the epoch", "window_start", "start_time", "begin", "start_ms"),
    **each("read end, in ms since the epoch", "window_end", "end_time", "until", "end_ms"),
}
_FOR_GROUPS: Mapping[str, Mapping[str, str]] = {
    one: {name: said for name, said in _FRAMES.items() if said == _FOLD}
    for one in ("KGroupedStream", "WindowedKStream", "KGroupedTable")
}

#: Class -> name that it does not have, of a dict's or of a neighbour's -> what to do instead.
HABITS: Mapping[str, Mapping[str, str]] = {
    **_FOR_GROUPS,
    "KTable": {
        **{name: _of_tables(said) for name, said in _FRAMES.items()},
        **each(_ROWS_FIRST, "count", "reduce", "aggregate", "cogroup", "agg", "sum", "mean"),
    },
    "KStream": {
        **_FRAMES,
        "to_stream": "it is a stream already",
    },
    "KeyValueStore": _ENTRIES,
    "TimestampedStore": _ENTRIES,
    "VersionedKeyValueStore": each(_PUT_AT, "set", "add", "insert", "update", "put_all"),
    "Expression": _EXPRESSIONS,
    "TopologyTestDriver": _DRIVER,
    "Consumer": _CONSUMER,
    "ConsumerRecord": _RECORDS_OF_CONSUMERS,
    "Windowed": _BOUNDS,
    "Record": {
        **each("read it of context.record_metadata", "topic", "partition", "offset", "metadata"),
        **each("it never changes: call with_value(value)", "set_value", "set", "replace"),
        **each("call header(name)", "get_header"),
        **each("its name is value", "payload", "data"),
        **each("its name is timestamp, in ms since the epoch", "time", "ts", "timestamp_ms"),
    },
    **dict.fromkeys(("RecordMetadata", "Origin"), _PARTS_OF_RECORD),
    "ChangeEvent": {
        "op": "its name is operation",
        "ts_ms": "its name is at_ms",
        **each("the row is after, and before where it is deleted", "value", "payload", "row"),
        **each("read it of the dict source", "table", "database", "schema", "lsn"),
    },
    "Processor": {
        **{name: f"call self.context.{name}()" for name in _CONTEXT_CALLS},
        **each("read it of self.context", "stream_time", "record_metadata", "task_id"),
        **each(_RECORD, "headers", "timestamp"),
    },
    "Serde": {
        **each("call encode(value)", "serialize", "serializer", "dumps", "to_bytes"),
        **each("call decode(raw)", "deserialize", "deserializer", "loads", "from_bytes"),
    },
    "RecordContext": {
        **each("the function gets it as an argument", "key", "value"),
        **each("only processors have stores: call process()", "store", "forward", "schedule"),
    },
    "RecordBatch": {
        **each("call to_pandas()", "iterrows", "columns", "shape", "head", "df", "to_dict"),
        **each("call zip(batch.keys, batch.values)", "items", "records", "rows"),
    },
    "Position": {
        **each("call merged(other)", "merge", "update"),
        **each("read the dict offsets", "topics", "get", "items", "keys", "values"),
    },
    "StateQueryResult": each(
        "read only_partition_result.result, or result of each in partition_results",
        *("value", "result", "get_result", "values", "get"),
    ),
    "WindowsView": each("call all(), which gives pairs of window and value", "items", "values"),
    "StoreBuilder": each(_OF_TASK, "get", "put", "delete", "all", "range", "fetch", "put_all"),
    "State": {
        **each("it is a dict: state[name] = value", "set", "put"),
        "exists": "it is a dict: name in state",
        **each("it is a dict: del state[name]", "delete", "remove"),
    },
    "ProcessorContext": {
        **each(_RECORD, "headers", "timestamp", "key", "value"),
        **each(_ORIGIN, "topic", "partition", "offset", "metadata"),
        **each("call store(name)", "get_state_store", "get_store", "state_store", "stores"),
        "current_stream_time_ms": "read stream_time",
        "current_system_time_ms": "read wall_clock_time",
    },
}

_EXPRESSED = (
    "it has == != < <= > >= + - * / & | ~, is_null() and is_not_null(); for all else give the "
    "operator a function of key and value in its place"
)
_CALLS = "get(key) reads, put(key, value) and delete(key) write, all() and range() scan"
#: Class -> what to do instead of Python's operators: brackets, loops, calculations.
NO_PARTS: Mapping[str, str] = {
    "KStream": "records go through functions, as of filter() and map_values(), or through "
    "expressions of their fields, such as streamlet.col('name')",
    "KTable": "rows go through functions, as of filter() and map_values(); App.store(name) reads "
    "them while the application runs",
    "KeyValueStore": _CALLS,
    "TimestampedStore": _CALLS,
    "StoreView": "call its methods, such as get() or fetch(), put() and all()",
    "RecordBatch": "its columns are lists: keys, values, timestamps and headers",
    "Expression": _EXPRESSED,
    "Record": "its parts are key, value, timestamp and headers",
}
_COUNTED = "call approximate_num_entries(), which reads all entries"
#: Class -> what to do instead of ``len()``.
NO_LEN: Mapping[str, str] = {
    "KStream": "records come without end; group_by_key().count() counts them by key",
    "KTable": "App.store(name).approximate_num_entries() counts its rows while it runs",
    "KeyValueStore": _COUNTED,
    "TimestampedStore": _COUNTED,
    "StoreView": "count what all() gives",
}
#: Class -> what is said of any other name, where a list of those that there are does not help.
ELSE: Mapping[str, str] = {"Expression": _EXPRESSED}
#: Class -> how a user comes by it. Where a name belongs to another class, the first that has it.
COMES_FROM: Mapping[str, str] = {
    "KStream": "and App.stream(topic) makes one, or to_stream() of a table",
    "BranchedKStream": "which split() of a stream makes",
    "KTable": "and App.table(topic) makes one, or count() of grouped records",
    "KGroupedStream": "which group_by_key() or group_by(function) of a stream makes",
    "KGroupedTable": "which group_by(function) of a table makes",
    "WindowedKStream": "which windowed_by(windows) of grouped records makes",
    "CogroupedKStream": "which cogroup(aggregator) of grouped records makes",
    "WindowedCogroupedKStream": "which windowed_by(windows) behind cogroup() makes",
    "GlobalKTable": "which App.global_table(topic) makes",
    "App": "which App(name) makes",
    "KeyValueStore": "which context.store(name) gives a processor",
    "TimestampedStore": "which context.store(name) gives a processor",
    "VersionedKeyValueStore": "which context.store(name) gives a processor",
    "WindowStore": "which context.store(name) gives a processor",
    "SessionStore": "which context.store(name) gives a processor",
    "ProcessorContext": "which process() gives a processor in init(context)",
    "RecordContext": "which functions of streamlet.with_context(function) are given",
    "TopologyTestDriver": "of streamlet.testing",
}
