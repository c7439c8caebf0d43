"""Bytes of a checkpoint that something else wrote, or that a disk damaged."""

from __future__ import annotations

import json

import msgspec
import pytest

from streamlet.errors import StateError
from streamlet.spark.checkpoint import read
from streamlet.spark.state import run
from streamlet.spark.state.blocks import decoded_block, decoded_node

FACTS = {"application": "app", "subtopologies": {"0": "ff"}, "partitions": {"in": 2}}
DEEP = b"\x91" * 100_000


def test_the_facts_of_a_checkpoint_are_read_as_they_were_written() -> None:
    facts = {**FACTS, "form": 3, "topic_ids": {"in": "id"}, "later": 1}
    assert read(json.dumps(facts).encode(), "cp") == facts


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"7", b"null", b"[]", b"{}", b'"\xff"', b"[" * 5_000_000),
        *(json.dumps({**FACTS, "form": one}).encode() for one in (1.5, "3", None, float("nan"))),
        json.dumps({**FACTS, "partitions": {"in": "2"}}).encode(),
        json.dumps({**FACTS, "subtopologies": []}).encode(),
        json.dumps({**FACTS, "topic_ids": {"in": 7}}).encode(),
    ],
    ids=range(14),
)
def test_a_damaged_file_of_a_checkpoint_is_named(raw: bytes) -> None:
    with pytest.raises(StateError, match=r"checkpoint cp: its file streamlet.json is damaged"):
        read(raw, "cp")


@pytest.mark.parametrize("raw", [b"", b"\xc1", b"\x91\xa1\xff", DEEP, msgspec.msgpack.encode(7)])
@pytest.mark.parametrize("decode", [decoded_node, decoded_block, run._decode_head])
def test_damaged_state_is_a_state_error(decode: object, raw: bytes) -> None:
    assert callable(decode)
    with pytest.raises(StateError, match="damaged"):
        decode(raw)


def test_columns_of_a_block_that_are_not_of_one_length_are_damage() -> None:
    with pytest.raises(StateError, match="damaged"):
        decoded_block(msgspec.msgpack.encode([("s", [b"k"], [])]))


def test_half_a_fingerprint_is_damage() -> None:
    with pytest.raises(StateError, match="half a fingerprint"):
        decoded_node(msgspec.msgpack.encode([0, [("s", b"k")], [b"x"]]))
