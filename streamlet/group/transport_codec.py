"""Our messages as the fields of Kafka's requests and responses; knows no client library.

A request is a name, a version to begin with and one not to exceed, and its fields under the names
of Kafka's protocol; nested structures are attributes of plain objects. The lowest version is the
first that has all we rely on, because fields that a version lacks are dropped without a word:
static ids everywhere, the protocol type, ``require_stable`` (Kafka 2.5). The highest is set where
a later version speaks of topics by id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace as Row
from typing import Any, assert_never

import attrs

from streamlet.group import messages as msg
from streamlet.types import TopicPartition


@attrs.frozen
class WireRequest:
    """A request by the name Kafka's protocol guide has for it."""

    name: str
    min_version: int
    max_version: int
    fields: dict[str, object]


def encode(request: msg.Request) -> WireRequest:
    """The request on the wire."""
    match request:
        case msg.JoinGroup():
            return WireRequest("JoinGroup", 7, 9, _join_fields(request))
        case msg.SyncGroup():
            return WireRequest("SyncGroup", 5, 5, _sync_fields(request))
        case msg.Heartbeat():
            return WireRequest("Heartbeat", 3, 4, _member_fields(request))
        case msg.LeaveGroup():
            leaver = (request.member_id, request.instance_id)
            return encode_leave(request.group, [leaver], request.reason)
        case msg.OffsetCommit():
            return WireRequest("OffsetCommit", 7, 9, _commit_fields(request))
        case msg.OffsetFetch():
            return WireRequest("OffsetFetch", 7, 7, _fetch_fields(request))
        case _:
            assert_never(request)


def encode_leave(group: str, leavers: Iterable[tuple[str, str | None]], reason: str) -> WireRequest:
    """Several members, by member id or static id, in one request."""
    members = [Row(member_id=m, group_instance_id=i, reason=reason) for m, i in leavers]
    return WireRequest("LeaveGroup", 3, 5, {"group_id": group, "members": members})


def _join_fields(request: msg.JoinGroup) -> dict[str, object]:
    return {
        "group_id": request.group,
        "session_timeout_ms": request.session_timeout_ms,
        "rebalance_timeout_ms": request.rebalance_timeout_ms,
        "member_id": request.member_id,
        "group_instance_id": request.instance_id,
        "protocol_type": request.protocol_type,
        "protocols": [Row(name=name, metadata=data) for name, data in request.protocols],
        "reason": request.reason,
    }


def _sync_fields(request: msg.SyncGroup) -> dict[str, object]:
    return {
        **_member_fields(request),
        "protocol_type": request.protocol_type,
        "protocol_name": request.protocol_name,
        "assignments": [Row(member_id=m, assignment=a) for m, a in request.assignments],
    }


def _member_fields(request: msg.SyncGroup | msg.Heartbeat) -> dict[str, object]:
    return {
        "group_id": request.group,
        "generation_id": request.generation,
        "member_id": request.member_id,
        "group_instance_id": request.instance_id,
    }


def _commit_fields(request: msg.OffsetCommit) -> dict[str, object]:
    topics = _by_topic(request.offsets)
    return {
        "group_id": request.group,
        "generation_id_or_member_epoch": request.generation,
        "member_id": request.member_id,
        "group_instance_id": request.instance_id,
        "topics": [
            Row(
                name=topic,
                partitions=[
                    Row(
                        partition_index=p.partition,
                        committed_offset=request.offsets[p][0],
                        committed_leader_epoch=-1,
                        committed_metadata=request.offsets[p][1],
                    )
                    for p in partitions
                ],
            )
            for topic, partitions in topics.items()
        ],
    }


def _fetch_fields(request: msg.OffsetFetch) -> dict[str, object]:
    return {
        "group_id": request.group,
        "topics": [
            Row(name=topic, partition_indexes=[p.partition for p in partitions])
            for topic, partitions in _by_topic(request.partitions).items()
        ],
        "require_stable": request.require_stable,
    }


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    topics: dict[str, list[TopicPartition]] = {}
    for partition in sorted(partitions):
        topics.setdefault(partition.topic, []).append(partition)
    return topics


def decode(request: msg.Request, response: Any) -> msg.Answer:
    """Decode the response to this request."""
    match request:
        case msg.JoinGroup():
            return msg.JoinGroupAnswer(
                response.error_code,
                response.generation_id,
                response.protocol_type,
                response.protocol_name,
                response.leader or "",
                response.member_id or "",
                bool(response.skip_assignment),
                tuple(
                    msg.JoinedMember(m.member_id, m.group_instance_id, bytes(m.metadata))
                    for m in response.members or ()
                ),
            )
        case msg.SyncGroup():
            return msg.SyncGroupAnswer(
                response.error_code,
                bytes(response.assignment or b""),
                response.protocol_type,
                response.protocol_name,
            )
        case msg.Heartbeat():
            return msg.HeartbeatAnswer(response.error_code)
        case msg.LeaveGroup():
            members = [m.error_code for m in response.members or () if m.error_code]
            return msg.LeaveGroupAnswer(response.error_code or next(iter(members), 0))
        case msg.OffsetCommit():
            return msg.OffsetCommitAnswer(
                {
                    TopicPartition(topic.name, p.partition_index): p.error_code
                    for topic in response.topics
                    for p in topic.partitions
                }
            )
        case msg.OffsetFetch():
            return msg.OffsetFetchAnswer(response.error_code, _committed(response.topics))
        case _:
            assert_never(request)


def _committed(topics: Sequence[Any]) -> dict[TopicPartition, msg.Committed]:
    # librdkafka ends metadata that it commits with a NUL.
    return {
        TopicPartition(topic.name, p.partition_index): msg.Committed(
            p.committed_offset, (p.metadata or "").rstrip("\0"), p.error_code
        )
        for topic in topics
        for p in topic.partitions
    }


def codes_of(answer: msg.Answer) -> set[int]:
    """Every error code in an answer."""
    if isinstance(answer, msg.OffsetCommitAnswer):
        return set(answer.errors.values())
    return {answer.error}


def decode_group(described: Any) -> msg.GroupDescription:
    """One group of a DescribeGroups response."""
    return msg.GroupDescription(
        described.group_id,
        described.group_state or "",
        described.protocol_type or "",
        described.protocol_data or "",
        tuple(
            msg.MemberDescription(
                m.member_id,
                m.group_instance_id,
                m.client_id,
                m.client_host,
                bytes(m.member_metadata or b""),
                bytes(m.member_assignment or b""),
            )
            for m in described.members
        ),
        described.error_code,
    )


def encode_log_sizes(topics: Mapping[str, Sequence[int]]) -> WireRequest:
    """A DescribeLogDirs request for these partitions."""
    asked = [Row(topic=name, partitions=list(found)) for name, found in topics.items()]
    return WireRequest("DescribeLogDirs", 1, 4, {"topics": asked})


def decode_log_sizes(response: Any) -> Iterator[tuple[TopicPartition, int]]:
    """The sizes in a DescribeLogDirs response; folders that failed, or may not be seen, have none.

    A replica that moves between folders of a broker is there twice: the copy is left out.
    """
    for folder in response.results:
        for topic in folder.topics:
            for partition in topic.partitions:
                if not partition.is_future_key:
                    where = TopicPartition(topic.name, partition.partition_index)
                    yield where, partition.partition_size
