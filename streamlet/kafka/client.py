"""The clients of Kafka, for those that open them; all others know the ports only."""

from streamlet.kafka.admin import KafkaAdmin
from streamlet.kafka.codes import librdkafka_version
from streamlet.kafka.native.choice import client_line, sink_type, source_type, transactional_type
from streamlet.kafka.sink import KafkaSink
from streamlet.kafka.source import KafkaSource
from streamlet.kafka.transactions import TransactionalSink, abort_open

__all__ = [
    "KafkaAdmin",
    "KafkaSink",
    "KafkaSource",
    "TransactionalSink",
    "abort_open",
    "client_line",
    "librdkafka_version",
    "sink_type",
    "source_type",
    "transactional_type",
]
