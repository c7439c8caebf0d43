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
from typing import Any

import attrs

from streamlet.coordinator import messages as msg
from streamlet.rebalance.values import JoinedMember
from streamlet.types import TopicPartition


@attrs.frozen
class WireRequest:
    """A request by the name Kafka's protocol guide has for it."""

    name: str
    min_version: int
    max_version: int
    fields: dict[str, object]


#: Lowest and highest version of each request.
_VERSIONS: dict[type[msg.Request], tuple[int, int]] = {
    msg.JoinGroup: (7, 9),
    msg.SyncGroup: (5, 5),
    msg.Heartbeat: (3, 4),
    msg.LeaveGroup: (3, 5),
    msg.OffsetCommit: (7, 9),
    msg.OffsetFetch: (7, 7),
}
#: Kafka's names of our fields that have other names here.
_NAMES = {"group": "group_id", "generation": "generation_id", "instance_id": "group_instance_id"}


def encode(request: msg.Request) -> WireRequest:
    """The request on the wire."""
    plain = attrs.asdict(request, recurse=False)
    fields = {_NAMES.get(name, name): value for name, value in plain.items()}
    match request:
        case msg.JoinGroup():
            fields["protocols"] = [Row(name=n, metadata=data) for n, data in request.protocols]
        case msg.SyncGroup():
            given = request.assignments
            fields["assignments"] = [Row(member_id=m, assignment=data) for m, data in given]
        case msg.LeaveGroup():
            return encode_leave(
                request.group, [(request.member_id, request.instance_id)], request.reason
            )
        case msg.OffsetCommit():
            fields["generation_id_or_member_epoch"] = fields.pop("generation_id")
            fields["topics"] = _topics(_offset_rows(fields.pop("offsets")), "partitions")
        case msg.OffsetFetch():
            asked = {tp: tp.partition for tp in fields.pop("partitions")}
            fields["topics"] = _topics(asked, "partition_indexes")
        case msg.Heartbeat():
            pass
    return _wire(type(request), fields)


def encode_leave(group: str, leavers: Iterable[tuple[str, str | None]], reason: str) -> WireRequest:
    """Several members, by member id or static id, in one request."""
    members = [Row(member_id=m, group_instance_id=i, reason=reason) for m, i in leavers]
    return _wire(msg.LeaveGroup, {"group_id": group, "members": members})


def _wire(kind: type[msg.Request], fields: dict[str, object]) -> WireRequest:
    return WireRequest(kind.__name__, *_VERSIONS[kind], fields)


def _offset_rows(offsets: Mapping[TopicPartition, tuple[int, str]]) -> dict[TopicPartition, Row]:
    return {
        tp: Row(
            partition_index=tp.partition,
            committed_offset=offset,
            committed_leader_epoch=-1,
            committed_metadata=text,
        )
        for tp, (offset, text) in offsets.items()
    }


def _topics(rows: Mapping[TopicPartition, object], name: str) -> list[Row]:
    """The rows of the partitions, by topic, as a field of this name."""
    topics: dict[str, list[object]] = {}
    for partition, row in sorted(rows.items(), key=lambda item: item[0]):
        topics.setdefault(partition.topic, []).append(row)
    return [Row(name=topic, **{name: found}) for topic, found in topics.items()]


def decode(request: msg.Request, response: Any) -> msg.Answer:
    """Decode the response to this request."""
    r = response
    match request:
        case msg.JoinGroup():
            members = tuple(
                JoinedMember(m.member_id, m.group_instance_id, bytes(m.metadata))
                for m in r.members or ()
            )
            return msg.JoinGroupAnswer(
                r.error_code,
                r.generation_id,
                r.protocol_type,
                r.protocol_name,
                r.leader or "",
                r.member_id or "",
                bool(r.skip_assignment),
                members,
            )
        case msg.SyncGroup():
            return msg.SyncGroupAnswer(r.error_code, bytes(r.assignment or b""))
        case msg.Heartbeat():
            return msg.HeartbeatAnswer(r.error_code)
        case msg.LeaveGroup():
            codes = [m.error_code for m in r.members or () if m.error_code]
            return msg.LeaveGroupAnswer(r.error_code or next(iter(codes), 0))
        case msg.OffsetCommit():
            return msg.OffsetCommitAnswer({tp: p.error_code for tp, p in _partitions(r.topics)})
        case msg.OffsetFetch():
            # librdkafka ends metadata that it commits with a NUL.
            found = {
                tp: msg.Committed(p.committed_offset, (p.metadata or "").rstrip("\0"), p.error_code)
                for tp, p in _partitions(r.topics)
            }
            return msg.OffsetFetchAnswer(r.error_code, found)


def _partitions(topics: Sequence[Any]) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in topics:
        for row in topic.partitions:
            yield TopicPartition(topic.name, row.partition_index), row


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
        for where, partition in _partitions(folder.topics):
            if not partition.is_future_key:
                yield where, partition.partition_size
