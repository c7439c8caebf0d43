"""The clients of confluent-kafka, for those that open them; all others know the ports only."""

from streamlet.kafka.admin import KafkaAdmin
from streamlet.kafka.codes import librdkafka_version
from streamlet.kafka.sink import KafkaSink
from streamlet.kafka.source import KafkaSource

__all__ = ["KafkaAdmin", "KafkaSink", "KafkaSource", "librdkafka_version"]
