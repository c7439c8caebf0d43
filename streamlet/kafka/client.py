"""The clients of confluent-kafka, for those that open them; all others know the ports only."""

from streamlet.kafka.admin import KafkaAdmin
from streamlet.kafka.codes import librdkafka_version
from streamlet.kafka.sink import KafkaSink
from streamlet.kafka.source import KafkaSource
from streamlet.kafka.transactions import TransactionalSink, abort_open

__all__ = [
    "KafkaAdmin",
    "KafkaSink",
    "KafkaSource",
    "TransactionalSink",
    "abort_open",
    "librdkafka_version",
]
