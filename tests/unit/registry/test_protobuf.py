"""Protobuf messages with a registry: which of their file they are, read and written."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2

import streamlet as sl
from streamlet.errors import SerdeError
from streamlet.testing import TopologyTestDriver
from tests.registry_server import RegistryServer


def test_protobuf_messages_say_which_of_their_file_they_are(
    registry: sl.registry.Registry,
) -> None:
    first, inner = descriptor_pb2.FileDescriptorSet, descriptor_pb2.DescriptorProto.ReservedRange
    for value, numbers in ((first(), b"\0"), (inner(start=1, end=2), b"\4\4\2")):
        serde = sl.registry.protobuf(type(value), registry=registry).of_topic("t", "value")
        raw = serde.encode(value)
        assert raw[5 : 5 + len(numbers)] == numbers
        assert serde.decode(raw) == value


@pytest.mark.parametrize(("levels", "read"), [(90, True), (150, False)])
def test_a_message_that_nests_deeper_than_protobuf_reads_is_not_written(
    registry: sl.registry.Registry, levels: int, read: bool
) -> None:
    """It was written, and nobody could read it."""
    serde = sl.registry.protobuf(descriptor_pb2.DescriptorProto, registry=registry)
    form = serde.of_topic("t", "value")
    value = inner = descriptor_pb2.DescriptorProto()
    for _ in range(levels):
        inner = inner.nested_type.add(name="a")
    if read:
        assert form.decode(form.encode(value)) == value
    else:
        with pytest.raises(SerdeError, match="cannot encode"):
            form.encode(value)


def test_what_is_no_generated_class_is_refused() -> None:
    for of in (int, "Order"):
        with pytest.raises(SerdeError, match="is no class that protoc generated"):
            sl.registry.protobuf(of)


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        ('"' + '\\"' * 200_000, "no message"),
        ("'" + "\\'" * 200_000, "no message"),
        ("/*" * 200_000, "no message"),
        ("message a{" * 100_000, "too many messages"),
        ("message a{}" * 20_000, "too many messages"),
        ("message " + "a" * 2_000 + "{}", "too many messages"),
    ],
    ids=["string", "other string", "comment", "nested", "wide", "long"],
)
def test_a_hostile_schema_takes_little_time_and_memory(
    server: RegistryServer, registry: sl.registry.Registry, rest: str, says: str
) -> None:
    text = "message FileDescriptorSet {}" + rest
    head = b"\0" + server.add(text, schemaType="PROTOBUF").to_bytes(4, "big")
    serde = sl.registry.protobuf(descriptor_pb2.FileDescriptorSet, registry=registry)
    with pytest.raises(SerdeError, match=says):
        serde.decode(head + b"\2\2")


PROTO = """
syntax = "proto3"; // message Not { }
package google.protobuf;
/* message Nor { */
message FileDescriptorSet { map<string, string> a = 1; message Inner { enum E { A = 0; } } }
message Other { string message = 1; oneof which { string text = 2 [json_name = "{"]; } }
"""


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        (b"\2\2", r"the record is a google\.protobuf\.Other"),
        (b"\4\0\0", r"the record is a google\.protobuf\.FileDescriptorSet\.Inner"),
        (b"\2\4", r"no message \[2\]"),
        (b"\xff\xff\xff\xff\xff\xff", "too long"),
        (b"\x7e", "numbers of a message"),
        (b"\2", "ends before its message"),
    ],
)
def test_another_message_of_the_writers_file_is_named(
    server: RegistryServer, registry: sl.registry.Registry, numbers: bytes, says: str
) -> None:
    head = b"\0" + server.add(PROTO, schemaType="PROTOBUF").to_bytes(4, "big")
    of = descriptor_pb2.FileDescriptorSet
    serde = sl.registry.protobuf(of, registry=registry)
    assert serde.decode(head + b"\0") == of()
    assert serde.decode(head + b"\2\0") == of()
    with pytest.raises(SerdeError, match=says):
        serde.decode(head + numbers)


def test_an_application_keeps_messages_and_functions_change_their_own(
    registry: sl.registry.Registry,
) -> None:
    """Messages were copied by their bytes, with the numbers in front of them."""
    of = descriptor_pb2.DescriptorProto.ReservedRange
    ranges = sl.registry.protobuf(of, registry=registry)

    def add(_key: str, value: Any, kept: Any) -> Any:
        kept.start, kept.end = kept.start + 1, kept.end + value.end
        value.end = 0
        return kept

    app = sl.App("ranges")
    stream = app.stream("in", key=str, value=ranges)
    stream.group_by_key().aggregate(of, add, value=ranges, store="sums").to_stream().to("sums")
    rows = app.table("rows", key=str, value=ranges)
    stream.join(rows, lambda one, row: one.end + row.end, value=int).to("joined")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("rows", "a", of(end=10))
        driver.pipe_inputs("in", [("a", of(end=1)), ("a", of(end=2))])
        found = [(record.value.start, record.value.end) for record in driver.read_output("sums")]
        assert found == [(1, 1), (2, 3)]
        assert driver.store("sums").get("a") == of(start=2, end=3)
        assert [record.value for record in driver.read_output("joined")] == [11, 12]
