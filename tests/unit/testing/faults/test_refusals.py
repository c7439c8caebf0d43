"""Answers with an error are ones that a client can read, and have it in each place."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from streamlet.testing.faults.refusals import NEEDS_THE_BROKERS, refusal, with_error
from streamlet.testing.faults.wire import APIS, KNOWN, Message, ProxiedRequest, is_message

NOT_COORDINATOR = 16
#: The requests that a member, a reader, a writer and a transaction make.
CONCERNED = (
    *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch"),
    *("FindCoordinator", "Produce", "Fetch", "ListOffsets", "Metadata", "InitProducerId"),
    *("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"),
)
#: A list of each kind with one element, where a request has one; else its own default.
LISTS: dict[str, Any] = {"coordinator_keys": ["app"], "partition_indexes": [3]}
NUMBERS = {"index": 3, "partition_index": 3, "partition": 3, "topic_id": UUID(int=7), "acks": -1}


def filled(message: Message, fields: Any, version: int) -> Message:
    """The message with one element in each list."""
    for name, field in fields.items():
        if not field.for_version_q(version):
            continue
        if field.is_struct_array():
            kind = field.data_class
            setattr(message, name, [filled(kind(version=version), kind.fields, version)])
        elif name == "partitions":
            setattr(message, name, [3])
        elif name in LISTS or name in NUMBERS:
            setattr(message, name, LISTS.get(name, NUMBERS.get(name)))
        elif getattr(message, name) == "":
            setattr(message, name, "app")
    return message


def versions(api: str) -> range:
    """The versions that kafka-python knows."""
    request = KNOWN[APIS[api]][1]
    return range(request.valid_versions[0], request.max_version + 1)


def request_of(api: str, version: int) -> ProxiedRequest:
    """A request that names one of everything."""
    kind = KNOWN[APIS[api]][1]
    message = filled(kind(version=version), kind.fields, version)
    message.with_header(correlation_id=77, client_id="me")
    return ProxiedRequest(bytes(message.encode(header=True, framed=True)), broker=1)


def codes(message: Message) -> list[int]:
    """All error numbers of an answer."""
    found = []
    for name, field in message.fields.items():
        if message.version is not None and not field.for_version_q(message.version):
            continue
        value = getattr(message, name)
        if name.endswith("error_code"):
            found.append(value)
        for one in value if isinstance(value, list) else ():
            found += codes(one) if is_message(one) else []
    return found


@pytest.mark.parametrize("api", CONCERNED)
def test_an_answer_with_an_error_can_be_read_in_each_version(api: str) -> None:
    for version in versions(api):
        request = request_of(api, version)
        assert (request.api, request.version, request.client_id) == (api, version, "me")
        frame = refusal(request, NOT_COORDINATOR)
        if api in NEEDS_THE_BROKERS:
            assert frame is None
            continue
        assert frame is not None
        answer = request.answer(frame)
        assert answer.header.correlation_id == 77
        assert NOT_COORDINATOR in codes(answer)
        assert request.answered


@pytest.mark.parametrize("api", CONCERNED)
def test_a_brokers_answer_gets_the_error_in_each_place(api: str) -> None:
    for version in versions(api):
        request = request_of(api, version)
        answer = request.new_answer()
        filled(answer, answer.fields, version)
        changed = request.answer(with_error(request, request.written(answer), NOT_COORDINATOR))
        assert set(codes(changed)) == {NOT_COORDINATOR}


@pytest.mark.parametrize(
    ("api", "version"),
    [
        *(("Produce", 9), ("Fetch", 13), ("ListOffsets", 7), ("OffsetCommit", 8)),
        *(("TxnOffsetCommit", 3), ("AddPartitionsToTxn", 3), ("AddPartitionsToTxn", 4)),
    ],
)
def test_the_partition_that_was_named_is_refused(api: str, version: int) -> None:
    request = request_of(api, version)
    frame = refusal(request, NOT_COORDINATOR)
    assert frame is not None
    text = str(request.answer(frame))
    assert "partition_index=3" in text or "index=3" in text
    assert "'app'" in text or str(UUID(int=7)) in text


@pytest.mark.parametrize(("code", "of_group"), [(16, True), (88, False)])
@pytest.mark.parametrize("version", [7, 8])
def test_positions_are_refused_by_group_or_by_partition(
    code: int, of_group: bool, version: int
) -> None:
    """UNSTABLE_OFFSET_COMMIT is one of single partitions."""
    request = request_of("OffsetFetch", version)
    frame = refusal(request, code)
    assert frame is not None
    answer = request.answer(frame)
    whole = answer if version == 7 else answer.groups[0]
    assert whole.error_code == (code if of_group else 0)
    partitions = [one.error_code for topic in whole.topics for one in topic.partitions]
    assert partitions == ([] if of_group else [code])


def test_a_fetch_is_refused_as_a_whole_by_errors_of_its_session() -> None:
    """FETCH_SESSION_TOPIC_ID_ERROR is none of a single partition."""
    request = request_of("Fetch", 13)
    frame = refusal(request, 106)
    assert frame is not None
    answer = request.answer(frame)
    assert (answer.error_code, answer.responses) == (106, [])


def test_a_write_that_wants_no_answer_gets_none() -> None:
    kind = KNOWN[APIS["Produce"]][1]
    message = kind(version=9, acks=0, timeout_ms=1, topic_data=[])
    message.with_header(correlation_id=1)
    frame = bytes(message.encode(header=True, framed=True))
    assert not ProxiedRequest(frame).answered


def test_a_request_of_a_kind_that_is_not_known_is_named_by_its_number() -> None:
    frame = b"\x00\x00\x00\x0a" + (999).to_bytes(2, "big") + bytes(6) + b"\xff\xff"
    request = ProxiedRequest(frame)
    assert (request.api, request.known, request.client_id) == ("999", False, None)
    assert (request.topics, refusal(request, 16)) == ([], None)
