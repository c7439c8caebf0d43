"""Names from other libraries that streamlet does not have, and what to do instead.

``no_operator`` is the ``__getattr__`` of ``App`` and of the DSL's classes, and ``elsewhere`` is for
names of the package. ``ABSENT`` has names of other libraries, ``HABITS`` those of a dict or of a
neighbour, and ``FIRST`` what to do before an operator that another class of the DSL has.
``no_item`` is what ``[]``, ``in`` and a loop do on objects that are no collections. Type checkers
do not see them, so they still refuse these names. An operator that arrives leaves ``ABSENT``, and
its row in docs/coming-from*.md changes; tests compare the three.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from streamlet.errors import WrongTypeError

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
_APP = "make an App(name), whose stream(), table() and global_table() read topics"
_WINDOWS_OF = "call streamlet.tumbling(), hopping(), sliding(), session() or unlimited()"
_REGISTRY = "types of a schema registry are in streamlet.registry: its protobuf, avro and json"
_KEYWORDS = "give its operator keyword arguments: key=, value=, name=, partitioner=, store="
_SOURCES = "sources other than topics are not in streamlet yet; write the records to a topic"


def _each(sentence: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, sentence)


_TIME_WINDOWS = _each(
    _WINDOWS,
    "windowed_by",
    "tumbling_window",
    "hopping_window",
    "sliding_window",
    "tumbling",
    "hopping",
)

#: Name that the package does not have -> what to do instead.
ABSENT_HERE: Mapping[str, str] = {
    **_each(_APP, "StreamsBuilder", "KafkaStreams", "Topology", "Application"),
    "StreamsConfig": "give App(config={...}), with the keys of docs/configuration.md",
    **_each(_KEYWORDS, "Consumed", "Produced", "Grouped", "Joined", "Repartitioned", "Named"),
    **_each(_KEYWORDS, "StreamJoined", "TableJoined", "Branched"),
    "Serdes": "types are serdes, as in key=str, value=int; streamlet.serdes has the others",
    "Stores": "call streamlet.key_value_store(), window_store(), session_store() or "
    "versioned_store()",
    **_each(_WINDOWS_OF, "TimeWindows", "SlidingWindows", "SessionWindows", "UnlimitedWindows"),
    "JoinWindows": "call streamlet.join_windows()",
    "Suppressed": "call suppress() with streamlet.until_window_closes() or until_time_limit()",
    **_each(_REGISTRY, "protobuf", "SchemaRegistry", "schema_registry"),
    **_each(_APP, "Stream", "DataFrame", "Dataframe"),
    "TopologyTestDriver": "import it from streamlet.testing",
}

#: Class -> name that it does not have -> what to do instead.
ABSENT: Mapping[str, Mapping[str, str]] = {
    "App": {
        "build": "call topology(), or run `streamlet describe MODULE:APP` to look at it",
        **_each("call reset(), or run `streamlet reset`", "clean_up", "clear_state"),
        **_each(_STORES, "add_state_store", "add_global_store", "add_read_only_state_store"),
        "add_processor": _PROCESSORS,
        "add_source": _SOURCES,
        "add_sink": "call to(topic) on a stream",
        "query_metadata_for_key": "call metadata_for_key(store, key)",
        "streams_metadata_for_store": "call metadata_for_store(store)",
        **_each(_METADATA, "metadata_for_all_streams_clients", "metadata_for_local_threads"),
        "all_local_store_partition_lags": "run `streamlet status`, which shows each task's lag",
        "set_uncaught_exception_handler": "run() raises what ended it, and App(on_error=...) "
        "decides about records that fail",
        "add_stream_thread": "call add_worker()",
        "remove_stream_thread": "call remove_worker()",
        **_each(_PAUSES, "pause", "resume", "is_paused"),
        "metrics": "pass metrics_port= to run(), which serves them to Prometheus",
        "dataframe": "call stream(topic, key=..., value=...)",
        "topic": "pass a topic's name and types: stream(topic, key=..., value=...)",
        "get_consumer": "make a streamlet.Consumer(topics, group)",
        "get_producer": "producers are not in streamlet yet; use a Kafka client's own",
        "agent": "call stream(topic, key=..., value=...) and give its operators functions",
        "channel": "channels in memory are not in streamlet yet; write to a topic and read it",
        **_each(_TABLES, "Table", "set_table"),
        **_each(_TIMERS, "timer", "crontab"),
        **_each("`streamlet run MODULE:APP` is the command line", "main", "command"),
    },
    "KStream": {
        **_TIME_WINDOWS,
        **_each("call process(processor, stores=[...])", "transform", "flat_transform"),
        **_each(
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
        **_each("call print()", "print_table"),
        "for_each": "its name is foreach()",
        "concat": "call merge(other)",
        **_each(_GROUP_FIRST, "count", "reduce", "aggregate", "cogroup"),
        "apply": "call map_values(function), flat_map_values(function) for several values, or "
        "group_by_key().aggregate() for state",
        "update": "call peek(function), or map_values(function) for a new value",
        **_each(_VALUES, "drop", "fill"),
        "to_topic": "call to(topic)",
        "sink": "call to(topic), or foreach(function) to write elsewhere",
        "set_timestamp": "call process(lambda record: record.with_timestamp(ms)), or give "
        "App.stream() timestamp= for the time of what is read",
        "set_headers": "call peek(streamlet.with_context(function)), whose context sets headers",
        **_each(_PAIRS, "items", "events"),
        **_each("call map_batches(function, max_records=, max_wait=)", "take", "noack_take"),
        "echo": "call to(topic) once for each topic",
    },
    "KTable": {
        **_TIME_WINDOWS,
        "queryable_store_name": "read the property store",
        **_each(_STREAM_FIRST, "to", "map", "flat_map", "flat_map_values", "select_key", "peek"),
        **_each(_STREAM_FIRST, "foreach", "merge", "repartition", "group_by_key", "print"),
        **_each(_QUERIES, "get", "keys", "values", "items"),
    },
    "KGroupedStream": {
        **_each(
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

_PUT, _ALL = "call put(key, value)", "call all(), which gives pairs of key and value"
_RECORD = "read it of the record that process() is given"
_ORIGIN = "read it of record_metadata, which is None in punctuators"
_OF_TASK = "context.store(builder) gives a processor its store, which has it"
_ENTRIES = {
    **_each(_PUT, "set", "add", "insert"),
    **_each("call delete(key)", "pop", "remove", "clear", "expire"),
    **_each(_ALL, "items", "keys", "values", "scan"),
    "update": "call put_all(pairs)",
    "setdefault": "call put_if_absent(key, value)",
    **_each("call get(key), which is None where there is none", "exists", "fetch"),
}
#: Class -> name that it does not have, of a dict's or of a neighbour's -> what to do instead.
HABITS: Mapping[str, Mapping[str, str]] = {
    "KTable": _each(
        "group the rows first, with group_by(function)", "count", "reduce", "aggregate", "cogroup"
    ),
    "KStream": {"to_stream": "it is a stream already"},
    "KeyValueStore": _ENTRIES,
    "TimestampedStore": _ENTRIES,
    "WindowsView": _each("call all(), which gives pairs of window and value", "items", "values"),
    "StoreBuilder": _each(_OF_TASK, "get", "put", "delete", "all", "range", "fetch", "put_all"),
    "State": {
        **_each("it is a dict: state[name] = value", "set", "put"),
        "exists": "it is a dict: name in state",
        **_each("it is a dict: del state[name]", "delete", "remove"),
    },
    "ProcessorContext": {
        **_each(_RECORD, "headers", "timestamp", "key", "value"),
        **_each(_ORIGIN, "topic", "partition", "offset", "metadata"),
        **_each("call store(name)", "get_state_store", "get_store", "state_store", "stores"),
        "current_stream_time_ms": "read stream_time",
        "current_system_time_ms": "read wall_clock_time",
    },
}

_CALLS = "get(key) reads, put(key, value) and delete(key) write, all() and range() scan"
_NO_PARTS = {
    "KStream": "records go through functions, as of filter() and map_values(), or through "
    "expressions of their fields, such as streamlet.col('name')",
    "KTable": "rows go through functions, as of filter() and map_values(); App.store(name) reads "
    "them while the application runs",
    "KeyValueStore": _CALLS,
    "TimestampedStore": _CALLS,
    "StoreView": "call its methods, such as get() or fetch(), put() and all()",
    "RecordBatch": "its columns are lists: keys, values, timestamps and headers",
}


def no_item(owner: object, *_: object) -> object:
    """The ``__getitem__`` of what is no collection; so ``in`` and a loop end here, too.

    Raises:
        WrongTypeError: always.
    """
    ours = _ours(type(owner), _NO_PARTS)
    raise WrongTypeError(f"{type(owner).__name__} has no items: {_NO_PARTS[ours or '']}")


def no_operator(owner: object, name: str) -> object:
    """The ``__getattr__`` of a class in ``ABSENT``: names what to do instead.

    Raises:
        AttributeError: always.
    """
    sentence = instead(type(owner), name)
    if sentence is None and _ours(type(owner), {"App": ""}) and "_builder" not in vars(owner):
        kind = type(owner).__name__
        sentence = f"{kind} is not made yet: its __init__() has to call super().__init__(name)"
    if sentence is None:
        # Python's own error, or once more that of a property that failed with an AttributeError.
        return object.__getattribute__(owner, name)
    # With the owner in it, Python would add the name most similar to this one, which misleads.
    raise AttributeError(sentence, name=name, obj=None)


def elsewhere(name: str) -> str | None:
    """The message for a name that the package does not have; None where there is none."""
    sentence = ABSENT_HERE.get(name)
    return None if sentence is None else f"streamlet has no {name}: {sentence}"


def instead(kind: type, name: str) -> str | None:
    """The message for a name that a class does not have; None where ``ABSENT`` does not help."""
    if name.startswith("_") or hasattr(kind, name):
        return None
    absent, habits = _of(kind, ABSENT), _of(kind, HABITS)
    ours = _ours(kind, {**ABSENT, **FIRST}) or kind.__name__
    snake = snake_case(name)
    if name not in absent and hasattr(kind, snake):
        return f"{ours} has no {name}: its name is {snake}"
    found = {**habits, **absent}
    sentence = found.get(name, found.get(snake))
    if sentence is None and snake in OPERATORS:
        sentence = FIRST.get(ours)
    return None if sentence is None else f"{ours} has no {name}: {sentence}"


def _ours(kind: type, table: Mapping[str, object]) -> str | None:
    """The class in a table that a class is, or is below."""
    return next((one.__name__ for one in kind.__mro__ if one.__name__ in table), None)


def _of(kind: type, table: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    ours = _ours(kind, table)
    return {} if ours is None else table[ours]


def snake_case(name: str) -> str:
    """A camelCase name as Python writes it: ``groupByKey`` is ``group_by_key``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
