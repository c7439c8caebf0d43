"""Classes and functions of other libraries that the package does not have, and what to do instead.

``absent_names`` has the names that its objects do not have.
"""

from __future__ import annotations

from collections.abc import Mapping

_APP = "make an App(name), whose stream(), table() and global_table() read topics"
_WINDOWS_OF = "call streamlet.tumbling(), hopping(), sliding(), session() or unlimited()"
_TOPICS = "a topic is its name; give App.stream(name, key=..., value=...) the types of its records"
_PRODUCERS = "write to a topic with to(topic), or with a producer of confluent_kafka"
_RUNS = "call App.run(), or type streamlet run module:app"
_REGISTRY = "types of a schema registry are in streamlet.registry: its protobuf, avro and json"
_SERDES = "types are serdes, as in key=str, value=int; streamlet.serdes has the others"
_CONFIG = "give App(config={...}), with the keys of docs/configuration.md"
_STORES = "call streamlet.key_value_store(), window_store(), session_store() or versioned_store()"
_KEYWORDS = "give its operator keyword arguments: key=, value=, name=, partitioner=, store="
_PAIRS = "functions take key and value as two arguments, and return a tuple (key, value)"
_SPANS = "a span of time is text with a unit, such as '5m', or a timedelta of datetime"
_FUNCTIONS = "pass a function to the operator"
_CLASSES = "write a class below streamlet.Processor, and pass the class to process()"
_PUNCTUATORS = "call context.schedule(interval, 'wall_clock' or 'stream_time', function)"
_QUERIES = "call App.store(name) while the application runs"
_HANDLERS = "give App on_error=, or processing_handler=, uncaught_handler= and the like"


def each(sentence: str, *names: str) -> dict[str, str]:
    """One sentence for several names."""
    return dict.fromkeys(names, sentence)


#: Name that the package does not have -> what to do instead.
ABSENT_HERE: Mapping[str, str] = {
    **each(_APP, "StreamsBuilder", "KafkaStreams", "Topology", "Application"),
    **each(_KEYWORDS, "Consumed", "Produced", "Grouped", "Joined", "Repartitioned", "Named"),
    **each(_KEYWORDS, "StreamJoined", "TableJoined", "Branched"),
    **each(
        _SERDES, "Serdes", "StringSerde", "LongSerde", "IntegerSerde", "DoubleSerde", "JsonSerde"
    ),
    **each(_SERDES, "AvroSerde", "StringSerializer", "StringDeserializer", "JSONSerializer"),
    **each(_CONFIG, "StreamsConfig", "Config", "Settings", "Configuration"),
    **each(_STORES, "Store", "Stores", "StateStore"),
    **each(_WINDOWS_OF, "TimeWindows", "SlidingWindows", "SessionWindows", "UnlimitedWindows"),
    **each(_WINDOWS_OF, "TumblingWindow", "HoppingWindow", "SessionWindow", "SlidingWindow"),
    "JoinWindows": "call streamlet.join_windows()",
    "Suppressed": "call suppress() with streamlet.until_window_closes() or until_time_limit()",
    **each(_REGISTRY, "protobuf", "SchemaRegistry", "schema_registry"),
    **each(_APP, "Stream", "DataFrame", "Dataframe", "StreamingDataFrame", "Dataflow", "agent"),
    **each(_TOPICS, "Topic", "topic"),
    **each(_PRODUCERS, "Producer", "KafkaProducer"),
    **each(_RUNS, "run", "start", "main"),
    "Table": "make a KTable with App.table(topic), or with count() of grouped records",
    **each(_PAIRS, "KeyValue", "Pair"),
    **each(_SPANS, "Duration", "Instant", "TimeUnit", "timedelta", "minutes", "seconds", "days"),
    **each(_FUNCTIONS, "KeyValueMapper", "ValueMapper", "ValueJoiner", "Predicate", "Reducer"),
    **each(_FUNCTIONS, "Initializer", "Aggregator", "Merger", "ForeachAction", "TableJoiner"),
    **each(_FUNCTIONS, "StreamPartitioner", "TimestampExtractor", "ValueMapperWithKey"),
    **each(_CLASSES, "ProcessorSupplier", "FixedKeyProcessor", "Transformer", "ValueTransformer"),
    **each(_PUNCTUATORS, "Punctuator", "PunctuationType"),
    **each(_QUERIES, "StoreQueryParameters", "QueryableStoreTypes", "ReadOnlyKeyValueStore"),
    **each(_HANDLERS, "LogAndContinueExceptionHandler", "LogAndFailExceptionHandler"),
    **each(_HANDLERS, "StreamsUncaughtExceptionHandler", "ProductionExceptionHandler"),
    "TopologyTestDriver": "import it from streamlet.testing",
}
