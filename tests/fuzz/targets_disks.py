"""Files of state folders and checkpoints."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from streamlet.broker.record import BrokerRecord, record_of
from streamlet.errors import (
    StateError,
    StateMismatchError,
    TaskCorruptedError,
)
from streamlet.spark import checkpoint, lease
from streamlet.spark.state import run
from streamlet.spark.state.blocks import decoded_block, decoded_node
from streamlet.state import directory
from streamlet.state.changelog import encode_column
from streamlet.state.meta import TaskMeta
from streamlet.testing.simulation.reading import ScenarioError
from streamlet.testing.simulation.scenario import read_scenario
from streamlet.types import StateNumber, TopicPartition
from tests.fuzz.target import DEEP, INPUT, Target


def _meta(raw: bytes) -> None:
    found = TaskMeta.from_bytes(raw, "here")
    encode_column(StateNumber(1 + max([0, *found.epochs.values()]), 1), [b"row"])
    TaskMeta.from_bytes(found.to_bytes(), "here")


def _lock(raw: bytes) -> None:
    file = os.memfd_create("lock")
    try:
        os.write(file, raw)
        directory._fields(file)
    finally:
        os.close(file)


def _scenario(raw: bytes) -> None:
    file = os.memfd_create("scenario")
    try:
        os.write(file, raw)
        read_scenario(Path(f"/proc/self/fd/{file}"))
    finally:
        os.close(file)


_META = TaskMeta(
    StateNumber(2, 3),
    {TopicPartition("c", 0): 9},
    {TopicPartition("c", 0): 2},
    {"c": "id"},
    {"s": ("str", "int")},
    frozenset({"s"}),
    {TopicPartition("c", 0): 1_766_000_000_000},
    {INPUT: 7},
    StateNumber(2, 4),
    {"s": 1_766_000_000_000},
    time_indexes={TopicPartition("c", 0): ((1, 5), (9, 70))},
)
_HEAD = run.TaskHeader(
    "0_3", b"hash", 4, b"mark", run.Extent(), 7, 1_766_000_000_000, {"lines": 9}, {"s": 5}
)

DISKS = (
    Target(
        "task meta",
        _meta,
        (TaskCorruptedError, StateMismatchError),
        (_META.to_bytes(),),
        (
            DEEP,
            b'{"v":2,"state":[1e400,1]}',
            b'{"v":1e400}',
            _META.to_bytes().replace(b'"reach":[2,4]', b'"reach":[1e308,4]'),
        ),
    ),
    Target(
        "lock file",
        _lock,
        (),
        (b'{"pid":77,"name":"one","drains":1,"tasks":3,"leaving_since_ms":0,"process_id":"p"}',),
        (DEEP, b'{"pid":"\xff"}', b'{"pid":1e400}', b"[7]"),
    ),
    Target(
        "checkpoint file",
        lambda raw: checkpoint.read(raw, "here"),
        (StateError,),
        (
            b'{"form":3,"application":"a","subtopologies":{"0":"ff"},"partitions":{"in":2},'
            b'"aggregations":{},"topic_ids":{"in":"x"},"later":7}',
        ),
        (DEEP, b"null", b'{"application":NaN}'),
    ),
    Target(
        "checkpoint lease",
        lease._fields,
        (),
        (b'{"host":"h","pid":7,"owner":"x","at_ms":5}',),
        (DEEP, b'{"host":"\xff"}'),
    ),
    Target(
        "record of a broker",
        lambda raw: record_of(raw, BrokerRecord),
        (),
        (b'{"port":9092,"pid":77,"data_dir":"/d","ephemeral":true,"alone":true}',),
        (DEEP, b'{"port":1e400}', b'{"port":9092,"pid":"../x","data_dir":7,"ephemeral":0}'),
    ),
    Target(
        "scenario",
        _scenario,
        (ScenarioError,),
        (
            b'{"tasks":{"A":{"stateful":false},"B":{}},"instances":{"S1":{"capacity":2,"members":2},'
            b'"S2":{}},"start":{"S1":{"active":["A","B"]}},"network":{"delay_ms":[0,5]},'
            b'"steps":[{"join":["S2"]},{"settle":{"max_rounds":50}}],"expect":{"rebalances":3}}',
        ),
        (DEEP,),
        batch=100,
    ),
    Target("task on Spark", run._decode_head, (StateError,), (run._encode_head(_HEAD),)),
    Target(
        "block on Spark",
        decoded_block,
        (StateError,),
        (msgspec.msgpack.encode([("s", [b"k", b"l"], [b"v", None])]),),
        (b"\x91\x93\xa1\xff\x90\x90",),
    ),
    Target(
        "node on Spark",
        decoded_node,
        (StateError,),
        (msgspec.msgpack.encode([0, [("s", b"k"), ("s", b"l")], [b"xy", b"zz"]]),),
    ),
)
