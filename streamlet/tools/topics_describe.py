"""``streamlet topics describe``: how large a topic is, and by which partitioner its keys lie."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Annotated

import typer

from streamlet.kafka.placements import DEFAULT, PARTITIONERS, place
from streamlet.tools.command import Common, command
from streamlet.tools.topics import TopicArgument, known_topic
from streamlet.tools.topics_read import read_batches


@command("topics describe")
def describe(
    common: Common,
    topic: TopicArgument,
    sample: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000_000, help="Keys that are looked at.")
    ] = 10_000,
) -> None:
    """Show a topic's partitions, and where the keys of its first records lie.

    Tables and streams that are joined need their keys in the same partitions. Java's clients and
    streamlet put them by murmur2_random; librdkafka, and so confluent-kafka, by consistent_random
    unless it is configured otherwise. Keys that lie as no partitioner puts them were written by
    one of a program's own, or before the topic got more partitions.
    """
    from streamlet.records.reader import ReadFrom

    with closing(common.admin()) as admin:
        count = known_topic(admin, topic)
    keys: set[tuple[bytes, int]] = set()
    records = 0
    with closing(read_batches(common, topic, ReadFrom.of("earliest"), False, False)) as batches:
        for batch in batches:
            records += len(batch)
            keys.update((key, batch.partition) for key in batch.keys if key)
            if records >= sample:
                break
    shares = shares_of(keys, count)
    document = {"topic": topic, "partitions": count, "keys": len(keys), "shares": shares}
    common.output.answer(document, _text(topic, count, len(keys), shares))


def shares_of(keys: Iterable[tuple[bytes, int]], partitions: int) -> dict[str, float]:
    """The share of these keys, 0 to 1, that lie where each partitioner puts them."""
    given = list(keys)
    if not given:
        return {}
    return {
        name: sum(place(name)(key, partitions) == at for key, at in given) / len(given)
        for name in PARTITIONERS
    }


def _text(topic: str, partitions: int, keys: int, shares: dict[str, float]) -> str:
    lines = [f"{topic} has {partitions} partition{'s' if partitions != 1 else ''}"]
    if not shares:
        return f"{lines[0]}; the records that were looked at have no keys"
    lines += [f"{share:6.1%} of {keys:,} keys lie by {name}" for name, share in shares.items()]
    best = max(shares, key=lambda name: shares[name])
    if partitions == 1:
        lines.append("with one partition all partitioners agree")
    elif shares[best] == 1 and shares[DEFAULT] < 1:
        lines.append(
            f'give partitioner="{best}" where an application reads it as a table or joins it, or '
            f'have its producers set "partitioner": "{DEFAULT}"'
        )
    elif shares[best] < 1:
        lines.append(
            "they were written by several partitioners, or before it got more partitions: joins "
            "with it miss matches until they are written again"
        )
    return "\n".join(lines)
