"""Answers that have an error, in all places where an answer of that kind can have one.

A broker's own answer gets it by ``with_error``. Where the broker must not see the request,
``refusal`` makes the answer from the request: each partition that was named gets the error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from streamlet.testing.faults.wire import Message, ProxiedRequest, is_message

#: Fields that have an error's number.
_CODES = ("error_code", "partition_error_code")
#: What an answer has instead of a place in a topic, when there is none.
_NO_PLACE = {
    "base_offset": -1,
    "offset": -1,
    "committed_offset": -1,
    "high_watermark": -1,
    "last_stable_offset": -1,
    "log_start_offset": -1,
    "timestamp": -1,
    "producer_id": -1,
    "producer_epoch": -1,
    "node_id": -1,
    "port": -1,
}
#: Fields of a topic that a request and its answer have in common.
_NAMES = ("name", "topic", "topic_id")
#: Errors that OffsetFetch has for single partitions: UNKNOWN_TOPIC_OR_PARTITION,
#: TOPIC_AUTHORIZATION_FAILED, UNSTABLE_OFFSET_COMMIT, UNKNOWN_TOPIC_ID.
_OF_PARTITIONS = frozenset({3, 29, 88, 100})
#: Errors that Fetch has for the whole answer: FETCH_SESSION_ID_NOT_FOUND,
#: INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
_OF_SESSIONS = frozenset({70, 71, 106})


@attrs.frozen
class _Lists:
    """Names of the lists of topics and partitions in a request and its answer."""

    topics: str
    partitions: str
    answered_topics: str
    answered_partitions: str


_PLACES = {
    "Produce": _Lists("topic_data", "partition_data", "responses", "partition_responses"),
    "Fetch": _Lists("topics", "partitions", "responses", "partitions"),
    "ListOffsets": _Lists("topics", "partitions", "topics", "partitions"),
    "OffsetCommit": _Lists("topics", "partitions", "topics", "partitions"),
    "TxnOffsetCommit": _Lists("topics", "partitions", "topics", "partitions"),
    "OffsetFetch": _Lists("topics", "partition_indexes", "topics", "partitions"),
    "AddPartitionsToTxn": _Lists("topics", "partitions", "topic_results", "results_by_partition"),
}
#: Kinds whose answer says more than an error, so that it takes the broker's own to put one in.
NEEDS_THE_BROKERS = frozenset({"Metadata", "DescribeCluster"})


def refusal(request: ProxiedRequest, code: int) -> bytes | None:
    """The answer with this error in the broker's place; None if it takes the broker's own."""
    if request.api in NEEDS_THE_BROKERS or not request.known:
        return None
    answer = request.new_answer()
    lists = _PLACES.get(request.api)
    if request.api == "OffsetFetch" and request.version > 1 and code not in _OF_PARTITIONS:
        lists = None
    if request.api == "Fetch" and code in _OF_SESSIONS:
        lists = None
    if lists is not None:
        filled = _fill(request, answer, lists, code)
    elif request.api == "OffsetFetch" and request.version >= 8:
        filled = _fill_groups(request, answer, code)
    elif request.api == "FindCoordinator" and request.version >= 4:
        filled = _fill_coordinators(request, answer, code)
    else:
        filled = False
    if not filled:
        if "error_code" not in _fields(answer):
            return None
        _refuse(answer, code)
    return request.written(answer)


def with_error(request: ProxiedRequest, frame: bytes, code: int) -> bytes:
    """The broker's answer with this error wherever it has room for one."""
    answer = request.answer(frame)
    for part in _parts(answer):
        if any(name in _fields(part) for name in _CODES):
            _refuse(part, code)
    return request.written(answer)


def _fill(request: ProxiedRequest, answer: Message, lists: _Lists, code: int) -> bool:
    """Give each partition that was named the error; False if none was."""
    if request.api == "AddPartitionsToTxn":
        return _fill_transactions(request, answer, lists, code)
    if request.api == "OffsetFetch" and request.version >= 8:
        groups = [
            _made(answer, "groups", group_id=one.group_id, topics=[]) for one in request.body.groups
        ]
        for made, one in zip(groups, request.body.groups, strict=True):
            made.topics = _topics(made, "topics", one.topics, lists, code)
        answer.groups = groups
        return any(one.topics for one in groups)
    asked = getattr(request.body, lists.topics)
    topics = _topics(answer, lists.answered_topics, asked, lists, code)
    setattr(answer, lists.answered_topics, topics)
    return bool(topics)


def _fill_transactions(request: ProxiedRequest, answer: Message, lists: _Lists, code: int) -> bool:
    if request.version < 4:
        asked = request.body.v3_and_below_topics
        name = "results_by_topic_v3_and_below"
        setattr(answer, name, _topics(answer, name, asked, lists, code))
        return bool(asked)
    answer.results_by_transaction = []
    for one in request.body.transactions:
        made = _made(answer, "results_by_transaction", transactional_id=one.transactional_id)
        made.topic_results = _topics(made, "topic_results", one.topics, lists, code)
        answer.results_by_transaction.append(made)
    return bool(answer.results_by_transaction)


def _fill_groups(request: ProxiedRequest, answer: Message, code: int) -> bool:
    answer.groups = [
        _made(answer, "groups", group_id=one.group_id, topics=[], error_code=code)
        for one in request.body.groups
    ]
    return True


def _fill_coordinators(request: ProxiedRequest, answer: Message, code: int) -> bool:
    nowhere = {"node_id": -1, "host": "", "port": -1}
    answer.coordinators = [
        _made(answer, "coordinators", key=key, error_code=code, **nowhere)
        for key in request.body.coordinator_keys
    ]
    return True


def _topics(
    parent: Message, name: str, asked: Sequence[Message] | None, lists: _Lists, code: int
) -> list[Message]:
    made = []
    for topic in asked or ():
        one = _made(
            parent,
            name,
            **{name: getattr(topic, name) for name in _NAMES if name in _fields(topic)},
        )
        partitions = [
            _made(one, lists.answered_partitions, **_numbered(one, lists, partition))
            for partition in getattr(topic, lists.partitions) or ()
        ]
        for partition in partitions:
            _refuse(partition, code)
        setattr(one, lists.answered_partitions, partitions)
        made.append(one)
    return made


def _numbered(topic: Message, lists: _Lists, asked: Message | int) -> dict[str, int]:
    """The number of a partition, under the name that it has in the answer."""
    number = asked
    for name in ("index", "partition_index", "partition"):
        if not isinstance(number, int) and name in _fields(number):
            number = getattr(number, name)
    kind = topic.fields[lists.answered_partitions].data_class
    name = "index" if "index" in kind.fields else "partition_index"
    return {name: int(number)}


def _refuse(part: Message, code: int) -> None:
    """Put the error in, and take out what an answer with an error does not have."""
    fields = _fields(part)
    for name in _CODES:
        if name in fields:
            setattr(part, name, code)
    for name, value in _NO_PLACE.items():
        if name in fields:
            setattr(part, name, value)
    if "records" in fields:
        part.records = None


def _made(parent: Message, name: str, /, **fields: object) -> Message:
    """An element of a list in an answer."""
    return parent.fields[name].data_class(version=parent.version, **fields)


def _parts(message: Message) -> Iterator[Message]:
    """A message and all that lies in it."""
    yield message
    for name in _fields(message):
        value = getattr(message, name)
        for one in value if isinstance(value, list) else [value]:
            if is_message(one):
                yield from _parts(one)


def _fields(message: Any) -> dict[str, Any]:
    """The fields that a message of its version has, by name."""
    version = message.version
    return {
        name: field
        for name, field in message.fields.items()
        if version is None or field.for_version_q(version)
    }
