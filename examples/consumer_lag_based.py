"""Partitions shared by how far behind they are, not by how many there are.

    streamlet topics create orders --partitions 20
    python -m examples.consumer_lag_based orders billing

Lags change all the time and an assignor is asked only when the group rebalances. So each member
asks for a rebalance now and then; what nobody would want elsewhere stays where it is.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as RawPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

import streamlet as sl
from streamlet.consumer import ConsumerMember, PartitionAssignor
from streamlet.errors import BrokerError
from streamlet.types import TopicPartition

Lags = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]]

TIMEOUT_S = 2.0
REBALANCE_EVERY_S = 60.0


def lag_based(lags: Lags, worth: float = 0.25) -> PartitionAssignor:
    """An assignor that evens out lags.

    A partition leaves its owner only if that has ``worth`` more to do than an even share.
    """

    def assign(
        members: Sequence[ConsumerMember], partitions: Sequence[TopicPartition]
    ) -> dict[str, list[TopicPartition]]:
        # One record more for each: partitions without a lag are shared by number.
        work = {p: lag + 1 for p, lag in lags(partitions).items()}
        bound = (1 + worth) * sum(work.values()) / len(members)
        found: dict[str, list[TopicPartition]] = {m.member_id: [] for m in members}
        busy = dict.fromkeys(found, 0)
        for partition in sorted(partitions, key=lambda p: (-work[p], p)):
            readers = [m for m in members if partition.topic in m.topics]
            stays = [
                m.member_id
                for m in readers
                if partition in m.owned and busy[m.member_id] + work[partition] <= bound
            ]
            least = min((m.member_id for m in readers), key=lambda name: (busy[name], name))
            owner = stays[0] if stays else least
            found[owner].append(partition)
            busy[owner] += work[partition]
        return found

    return assign


def broker_lags(bootstrap_servers: str, group: str) -> Lags:
    """Lags as the broker knows them: log end without committed position."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def lags(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        raw = [RawPartition(*partition) for partition in partitions]
        asked = [ConsumerGroupTopicPartitions(group, raw)]
        newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        ends = dict.fromkeys(raw, newest)
        try:
            group_answer = admin.list_consumer_group_offsets(asked, request_timeout=TIMEOUT_S)
            end_answers = admin.list_offsets(ends, request_timeout=TIMEOUT_S)
            committed = group_answer[group].result().topic_partitions
            done = {(p.topic, p.partition): max(p.offset, 0) for p in committed}
            return {
                TopicPartition(p.topic, p.partition): max(
                    future.result().offset - done.get((p.topic, p.partition), 0), 0
                )
                for p, future in end_answers.items()
            }
        except KafkaException as error:
            raise BrokerError(f"no lags of group {group} just now: {error}") from error

    return lags


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("topic")
    parser.add_argument("group")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    options = parser.parse_args()
    lags = broker_lags(options.bootstrap_servers, options.group)
    with sl.Consumer(
        options.topic,
        options.group,
        bootstrap_servers=options.bootstrap_servers,
        assignor=lag_based(lags),
        config={"rebalance.protocol": "cooperative"},
        on_assigned=lambda partitions: print("assigned", *partitions, flush=True),
        on_revoked=lambda partitions: print("revoked", *partitions, flush=True),
    ) as consumer:
        last = time.monotonic()
        while True:
            for record in consumer.poll():
                print(record.topic, record.partition, record.offset, record.value, flush=True)
            if time.monotonic() - last > REBALANCE_EVERY_S:
                last = time.monotonic()
                consumer.rebalance("lags have changed")


if __name__ == "__main__":
    main()
