"""What members of a group say, and what stands beside committed positions."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import attrs

from streamlet.assignor.values import Copy, Role
from streamlet.coordinator.commit_metadata import (
    CommitMetadata,
    CommitMetadataError,
    InputNote,
    Rebuilt,
    WriterMark,
)
from streamlet.dsl.foreign_keys import wire as foreign_wire
from streamlet.partitions import wire as partitions_wire
from streamlet.processing.edges.filter import EdgeFilter
from streamlet.processing.edges.records import edge_of, pack
from streamlet.rebalance import consumer_protocol, envelope, wire
from streamlet.rebalance.values import Assignment, Subscription
from streamlet.state.changelog import encode_column
from streamlet.types import StateNumber, TaskId, TopicPartition
from tests.fuzz.target import DEEP, INPUT, PREFIXED, Target, batch_of

SUBSCRIPTION = Subscription(
    "0d9f3c52-6f9f-4a1c-9d66-0c8c1b3e5a77",
    "one",
    0,
    2.0,
    3,
    (b"12345678", b"abcdefgh"),
    {TaskId(0, n): Copy(Role.ACTIVE, 3) for n in range(5)}
    | {TaskId(1, n): Copy(Role.DORMANT, lag=700) for n in range(3)},
    tags={"zone": "a"},
)
ASSIGNMENT = Assignment(
    active=frozenset({TaskId(0, 0), TaskId(0, 3), TaskId(1, 7)}), leader="m", generation=4
)


def _inside(record: dict[str, Any], schema: Any) -> bytes:
    """The bytes of a record that are packed inside."""
    packed = wire._pack(schema, record)
    return zlib.decompress(packed, -15)


def _unpacked(read: Callable[[bytes], object], version: int) -> Callable[[bytes], object]:
    """Reads bytes as what is packed inside."""

    def read_packed(raw: bytes) -> object:
        squeeze = zlib.compressobj(1, zlib.DEFLATED, -15)
        head = struct.pack(">ii", version, version)
        return read(head + squeeze.compress(raw) + squeeze.flush())

    return read_packed


_WIRE = wire.encode_subscription(SUBSCRIPTION), wire.encode_assignment(ASSIGNMENT)


def _inner(data: bytes) -> bytes:
    return zlib.decompress(data[8:], -15)


_KAFKA = consumer_protocol.encode_subscription(
    consumer_protocol.ConsumerSubscription(
        3, ("lines", "words"), _WIRE[0][:40], frozenset({INPUT}), 7, "rack"
    )
)
_KAFKA_GIVEN = consumer_protocol.encode_assignment(
    consumer_protocol.ConsumerAssignment(3, frozenset({INPUT}), b"data")
)
_PARTS = partitions_wire.encode_subscription(
    partitions_wire.PartitionsSubscription(1, ("lines",), frozenset({INPUT}), 5, 7, {"zone": "a"})
)
_PARTS_GIVEN = partitions_wire.encode_assignment(
    partitions_wire.PartitionsAssignment(1, frozenset({INPUT}), frozenset({INPUT}), 1, 5)
)

MEMBERS = (
    Target("subscription", wire.decode_subscription, (wire.WireError,), _WIRE),
    Target("assignment", wire.decode_assignment, (wire.WireError,), _WIRE),
    Target(
        "subscription inside",
        _unpacked(wire.decode_subscription, wire.VERSION),
        (wire.WireError,),
        (_inner(_WIRE[0]), _inner(wire.encode_subscription(Subscription("p", "n")))),
    ),
    Target(
        "assignment inside",
        _unpacked(wire.decode_assignment, wire.VERSION),
        (wire.WireError,),
        (_inner(_WIRE[1]), _inner(wire.encode_assignment(Assignment()))),
    ),
    Target(
        "consumer protocol",
        consumer_protocol.decode_subscription,
        (consumer_protocol.ConsumerProtocolError,),
        (_KAFKA,),
    ),
    Target(
        "consumer protocol, assignment",
        consumer_protocol.decode_assignment,
        (consumer_protocol.ConsumerProtocolError,),
        (_KAFKA_GIVEN,),
    ),
    Target(
        "envelope",
        lambda raw: envelope.open_subscription(raw, envelope.CONSUMER),
        (wire.WireError,),
        (_KAFKA,),
    ),
    Target(
        "partitions",
        partitions_wire.decode_subscription,
        (consumer_protocol.ConsumerProtocolError,),
        (_PARTS, _KAFKA),
    ),
    Target(
        "partitions, assignment",
        partitions_wire.decode_assignment,
        (consumer_protocol.ConsumerProtocolError,),
        (_PARTS_GIVEN, _KAFKA_GIVEN),
    ),
)


def _commit(raw: bytes) -> None:
    """Read a text, and write what an owner would write next."""
    found = CommitMetadata.from_text(raw.decode(errors="replace"))
    if found is None:
        return
    encode_column(StateNumber(found.epoch + 1, 1), [b"row"])
    edge = edge_of(INPUT, "", found.note.incarnation + 1)
    pack([b"v"], [edge], [2 << 20], [0])
    foreign_wire.source_of(0, found.epoch + 1)
    one = EdgeFilter(found.note)
    one.take(batch_of(PREFIXED))
    attrs.evolve(found, epoch=found.epoch + 1, note=one.note).to_text().encode()


_COMMIT = CommitMetadata(
    5,
    "one-0-0d9f3c52",
    7,
    {TopicPartition("app-counts-changelog", 0): 120},
    StateNumber(5, 9),
    "two-0",
    Rebuilt(3, whole=True, starts={TopicPartition("app-counts-changelog", 0): 990}),
    1_766_000_001,
    b"twelve bytes",
    InputNote(
        *(1_766_000_000, {7 << 32 | 5: (9 << 20) + 1, 8 << 32: 3}, frozenset({8 << 32}), True),
        held={3 << 32 | 1: WriterMark(1_766_000_000 << 32 | 4, 7, 77), 5: WriterMark(1 << 32)},
    ),
)


def _record_of(**changed: object) -> bytes:
    fields = {"v": 1, "epoch": 1, "by": "x", "gen": 1, "ends": {}, "state": [1, 0]}
    return json.dumps({**fields, **changed}).encode()


COMMITS = (
    Target(
        "commit metadata",
        _commit,
        (CommitMetadataError,),
        (_COMMIT.to_text().encode(), _COMMIT.to_text(compact=True).encode(), _record_of()),
        (
            *(_record_of(epoch=n, state=[n, 0]) for n in (-5, 1 << 40, 1 << 70, 1 << 100)),
            *(_record_of(input={"inc": n}) for n in (-1, 1 << 31, 1 << 32, 1 << 40)),
            _record_of(by="\ud800"),
            b'{"v":1,"epoch":' + DEEP,
            _record_of(epoch=1e308),
            b'{"v":1,"epoch":NaN}',
            _record_of(ends={"c": {"9" * 5000: 1}}),
        ),
    ),
)
