"""The names of the nodes, topics and stores of a join by foreign keys: those of Kafka Streams."""

from __future__ import annotations

import attrs

from streamlet.dsl.graph.builder import Builder


@attrs.frozen
class ForeignNames:
    """The names of the nodes, topics and the store of a join, in the order of their numbers."""

    subscription_topic: str
    subscribe: str
    subscription_sink: str
    subscription_source: str
    store: str
    keep: str
    answer: str
    change: str
    response_topic: str
    response_sink: str
    response_source: str
    join: str
    result: str

    @classmethod
    def of(cls, builder: Builder, name: str | None) -> ForeignNames:
        """Names that begin with a given one, else made-up ones."""

        def new(end: str, prefix: str) -> str:
            return builder.graph.new_name(prefix, name, f"-{end}")

        join = "KTABLE-FK-JOIN-"
        registration, processor = (
            f"{join}SUBSCRIPTION-REGISTRATION-",
            f"{join}SUBSCRIPTION-PROCESSOR-",
        )
        response = f"{join}SUBSCRIPTION-RESPONSE-"
        return cls(
            new("subscription-registration", registration),
            new("subscription-registration-processor", registration),
            new("subscription-registration-sink", "KTABLE-SINK-"),
            new("subscription-registration-source", "KTABLE-SOURCE-"),
            new("subscription-store", f"{join}SUBSCRIPTION-STATE-STORE-"),
            new("subscription-receive", processor),
            new("subscription-join-foreign", processor),
            new("foreign-join-subscription", processor),
            new("subscription-response", response),
            new("subscription-response-sink", "KTABLE-SINK-"),
            new("subscription-response-source", "KTABLE-SOURCE-"),
            new("subscription-response-resolver", f"{response}RESOLVER-PROCESSOR-"),
            new("result", f"{join}OUTPUT-"),
        )
