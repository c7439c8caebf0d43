"""Subscriptions and assignments as bytes: two plain int32, then a compressed Avro record.

The head is (version used, latest version supported), big-endian, and never changes: a leader can
read it of a member far newer than itself and answer at the version both know. ``latest`` is the
highest version the caller knows: our own, unless it stands for an older program. The body is raw
deflate. The whole group's bodies are one record of the broker and must stay far below 1 MB, so
lists of tasks are columns of small numbers (``wire_schemas``), and a member id or process id ends
in its 16 bytes of uuid.

The only place that knows fastavro besides the user's serdes.
"""

from __future__ import annotations

import hashlib
import io
import struct
import uuid
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

import attrs
import fastavro

from streamlet.assignor.values import Copy, Leaving, Role
from streamlet.bounded import NAME_MAX
from streamlet.errors import GroupError
from streamlet.rebalance import wire_schemas as schemas
from streamlet.rebalance.values import Assignment, Subscription, TypeMigration
from streamlet.types import TaskId

#: The latest version this code writes and reads.
VERSION = schemas.VERSION

#: Programs that know this version read prefixes in repartition topics.
PREFIX_VERSION = 7
#: Programs that know this version read the compact form of commit metadata.
COMPACT_VERSION = 8
#: Programs that know this version read records that wait for a commit.
HELD_VERSION = 9
#: Programs that know this version may run beside members that commit by transactions.
GUARANTEE_VERSION = 10

_HEAD = struct.Struct(">ii")
_HASH_BYTES = 8
#: Of each of the two parts of an identity.
_IDENTITY_BYTES = 4
#: Above this two numbers are no head of ours but the beginning of something else.
_VERSION_MAX = 9_999
#: No body may unpack to more: bytes from the network must not decide how much memory we take. Items
#: of one byte take a hundred times as much once they are values; 100,000 tasks are 100 kB here.
_UNPACKED_MAX = 512 * 1024
#: Bounds of capacities and bands, so that no sum or quotient of them is infinite.
_LEAST, _MOST = 1e-100, 1e100
#: Characters of the reason of a rebalance, which is for people.
_REASON_MAX = 1_000
_ROLES = tuple(Role)
_USUAL_TYPE, _USUAL_MODE = "stream", "incremental"


T = TypeVar("T")


class WireError(GroupError):
    """Bytes of another member that are no subscription or assignment of ours."""


class TooNewError(WireError):
    """A body of a version above ours; its head could be read."""


@attrs.frozen
class WireHeader:
    """``version`` is that of the body, ``latest`` what its writer could read and write."""

    version: int
    latest: int

    def common(self, latest: int = VERSION) -> int:
        """The highest version both its writer and we know."""
        return min(self.latest, latest)


def read_head(data: bytes) -> WireHeader:
    """Read the version numbers at the start of the bytes.

    Raises:
        WireError: if there are no two, or they cannot be.
    """
    if len(data) < _HEAD.size:
        raise WireError(f"{len(data)} bytes are too few for a head")
    version, latest = _HEAD.unpack_from(data)
    if not 1 <= version <= latest <= _VERSION_MAX:
        raise WireError(f"versions {version} and {latest} cannot be")
    return WireHeader(version, latest)


def encode_subscription(
    subscription: Subscription, version: int = VERSION, latest: int = VERSION
) -> bytes:
    """Write a subscription at a version its reader knows."""
    return _encode(
        schemas.SUBSCRIPTIONS, version, latest, _subscription_record(subscription, version)
    )


def decode_subscription(data: bytes, latest: int = VERSION) -> Subscription:
    """Read a subscription.

    Raises:
        TooNewError: if its version is above ours.
        WireError: if the bytes are malformed.
    """
    record = _decode(schemas.SUBSCRIPTIONS, data, latest)
    return _checked(_subscription, record)


def encode_assignment(
    assignment: Assignment, version: int = VERSION, latest: int = VERSION
) -> bytes:
    """Write an assignment at a version its reader knows."""
    return _encode(schemas.ASSIGNMENTS, version, latest, _assignment_record(assignment, version))


def decode_assignment(data: bytes, latest: int = VERSION) -> Assignment:
    """Read an assignment; no bytes at all are an empty one, as a group without plan gives out.

    Raises:
        TooNewError: if its version is above ours.
        WireError: if the bytes are malformed.
    """
    if not data:
        return Assignment()
    record = _decode(schemas.ASSIGNMENTS, data, latest)
    return _checked(_assignment, record)


def identity_of(subscription: Subscription) -> bytes:
    """Give 8 bytes of what a member is, without what it has; other bytes need another plan.

    The first four stand for its program and its state folder, see ``same_program``, the others for
    its settings.
    """
    s = subscription
    name = "exactly_once" if s.exactly_once else ""
    program = Subscription(s.instance, name, subtopologies=s.subtopologies, stateful=s.stateful)
    settings = attrs.evolve(
        s,
        copies={},
        nonce=0,
        joined_generation=-1,
        deferral_deadline_ms=None,
        started_ms=0,
        migration=None,
        reason="",
    )
    # What a program is must look the same to programs of all versions.
    return _part_of_identity(program, 1) + _part_of_identity(settings, VERSION)


def _part_of_identity(subscription: Subscription, version: int) -> bytes:
    record = _subscription_record(subscription, version)
    return short_hash(_pack(schemas.SUBSCRIPTIONS[version], record))[:_IDENTITY_BYTES]


def same_program(identity: bytes, other: bytes) -> bool:
    """True if tasks given to one can be run by the other, on the state the one had on disk."""
    return identity[:_IDENTITY_BYTES] == other[:_IDENTITY_BYTES]


def short_hash(data: bytes) -> bytes:
    """Eight bytes that stand for ``data`` in subscriptions."""
    return hashlib.blake2b(data, digest_size=_HASH_BYTES).digest()


def _encode(schemas: dict[int, Any], version: int, latest: int, record: dict[str, Any]) -> bytes:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9)
    body = squeeze.compress(_pack(schemas[version], record)) + squeeze.flush()
    return _HEAD.pack(version, latest) + body


def _pack(schema: Any, record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    return out.getvalue()


def _decode(schemas: dict[int, Any], data: bytes, latest: int) -> dict[str, Any]:
    head = read_head(data)
    if head.version > latest:
        raise TooNewError(f"version {head.version} is above ours, {latest}")
    unpack = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        body = unpack.decompress(data[_HEAD.size :], _UNPACKED_MAX)
    except zlib.error as error:
        raise WireError(f"the body cannot be unpacked: {error}") from error
    if not unpack.eof or unpack.unused_data:
        raise WireError("the body is cut off, too long, or followed by more")
    reader = io.BytesIO(body)
    try:
        record = fastavro.schemaless_reader(reader, schemas[head.version], None)
    except (EOFError, ValueError, IndexError, KeyError, OverflowError, TypeError) as error:
        raise WireError(f"the body is no record: {error!r}") from error
    if reader.tell() != len(body) or not isinstance(record, dict):
        raise WireError("the body holds more than one record")
    return record


def _checked(build: Callable[[dict[str, Any]], T], record: dict[str, Any]) -> T:
    """Make a value of a record whose fields may not fit together."""
    try:
        return build(record)
    except (ValueError, IndexError, TypeError, OverflowError) as error:
        raise WireError(f"the record does not fit together: {error}") from error


def _subscription_record(s: Subscription, version: int) -> dict[str, Any]:
    if any(len(item) != _HASH_BYTES for item in s.subtopologies):
        raise ValueError(f"a subtopology hash has {_HASH_BYTES} bytes")
    return {
        **attrs.asdict(s, recurse=False),
        "instance": _pack_id(s.instance),
        "subtopologies": b"".join(s.subtopologies),
        "copies": _copies_record(s.copies, version),
        "leaving": None if s.leaving is None else attrs.asdict(s.leaving),
        "successors": [_pack_id(one) for one in (s.leaving.successors if s.leaving else ())],
        "tags": dict(sorted(s.tags.items())),
        "wants_type": None if s.wants_type == _USUAL_TYPE else s.wants_type,
        "stateful": sorted(s.stateful),
        "mode": None if s.mode == _USUAL_MODE else s.mode,
        "migration": None if s.migration is None else attrs.asdict(s.migration),
    }


def _subscription(r: dict[str, Any]) -> Subscription:
    hashes: bytes = r["subtopologies"]
    if len(hashes) % _HASH_BYTES:
        raise ValueError(f"{len(hashes)} bytes of hashes")
    starts = range(0, len(hashes), _HASH_BYTES)
    if len(r["name"]) > NAME_MAX:
        raise ValueError(f"a name of {len(r['name'])} characters")
    _between(r["capacity"], _LEAST)
    if r["imbalance"] is not None:
        _between(r["imbalance"], 0.0)
    successors = tuple(map(_unpack_id, r.pop("successors", ())))
    return Subscription(
        **{
            **r,
            "instance": _unpack_id(r["instance"]),
            "subtopologies": tuple(hashes[at : at + _HASH_BYTES] for at in starts),
            "copies": _copies(r["copies"]),
            "leaving": _leaving(r["leaving"], successors),
            "stateful": frozenset(r["stateful"]),
            "wants_type": _USUAL_TYPE if r["wants_type"] is None else r["wants_type"],
            "mode": r.get("mode") or _USUAL_MODE,
            "migration": _migration(r),
            "reason": r.get("reason", "")[:_REASON_MAX],
            "belongings": tuple(r.get("belongings", ())),
        }
    )


def _between(value: float, least: float) -> None:
    if not least <= value <= _MOST:  # also for a NaN
        raise ValueError(f"{value} is no capacity or imbalance")


def _leaving(r: dict[str, Any] | None, successors: tuple[str, ...]) -> Leaving | None:
    return None if r is None else Leaving(**r, successors=successors)


def _migration(r: dict[str, Any]) -> TypeMigration | None:
    return None if r.get("migration") is None else TypeMigration(**r["migration"])


def _copies_record(copies: dict[TaskId, Copy], version: int) -> list[dict[str, Any]]:
    """Group tasks that are alike but for their lag; a lag is one more than it is, 0 for unknown."""
    groups: dict[tuple[int, int, bool], list[TaskId]] = {}
    for task, copy in copies.items():
        alike = (_ROLES.index(copy.role), copy.generation, copy.ready)
        groups.setdefault(alike, []).append(task)
    records = []
    for (role, generation, ready), tasks in sorted(groups.items()):
        listed = schemas.ordered(tasks, version)
        lags = [0 if (lag := copies[t].lag) is None else lag + 1 for t in listed]
        fields = {"role": role, "generation": generation, "ready": ready}
        record = {**fields, "tasks": schemas.tasks_record(listed, version)}
        records.append({**record, "lags": lags if any(lags) else []})
    return records


def _copies(records: list[dict[str, Any]]) -> dict[TaskId, Copy]:
    copies: dict[TaskId, Copy] = {}
    count = 0
    for record in records:
        tasks = schemas.tasks_of(record["tasks"])
        schemas.check_count(count := count + len(tasks))
        lags = record["lags"] or [0] * len(tasks)
        if record["role"] < 0:
            raise ValueError(f"role {record['role']}")
        role = _ROLES[record["role"]]
        for task, lag in zip(tasks, lags, strict=True):
            known = None if lag == 0 else lag - 1
            copies[task] = Copy(role, record["generation"], record["ready"], known)
    return dict(sorted(copies.items()))


def _assignment_record(a: Assignment, version: int) -> dict[str, Any]:
    return {
        **attrs.asdict(a, recurse=False),
        **{
            n: schemas.tasks_record(schemas.ordered(getattr(a, n), version), version)
            for n in schemas.TASK_SETS
        },
        "release": _orders_record(a.release),
        "pending": _orders_record(a.pending),
        "leader": _pack_id(a.leader),
        "migration": None if a.migration is None else attrs.asdict(a.migration),
    }


def _assignment(r: dict[str, Any]) -> Assignment:
    return Assignment(
        **{
            **r,
            **{name: frozenset(schemas.tasks_of(r.get(name, []))) for name in schemas.TASK_SETS},
            "release": _orders(r["release"]),
            "pending": _orders(r["pending"]),
            "leader": _unpack_id(r["leader"]),
            "migration": _migration(r),
        }
    )


def _orders_record(orders: dict[TaskId, str]) -> list[dict[str, Any]]:
    return [
        {"subtopology": t.subtopology, "partition": t.partition, "member": _pack_id(orders[t])}
        for t in sorted(orders)
    ]


def _orders(records: list[dict[str, Any]]) -> dict[TaskId, str]:
    return {
        schemas.task_of(r["subtopology"], r["partition"]): _unpack_id(r["member"]) for r in records
    }


_UUID_CHARS = 36


def _pack_id(text: str) -> bytes:
    """Write an id; a uuid at its end, as coordinators and we put there, takes 16 bytes."""
    head, tail = text[:-_UUID_CHARS], text[-_UUID_CHARS:]
    try:
        packed = uuid.UUID(tail)
    except ValueError:
        return b"\x00" + text.encode()
    if str(packed) != tail:
        return b"\x00" + text.encode()
    return b"\x01" + packed.bytes + head.encode()


def _unpack_id(data: bytes) -> str:
    if data[:1] == b"\x01":
        return data[17:].decode() + str(uuid.UUID(bytes=data[1:17]))
    if data[:1] != b"\x00":
        raise ValueError("an id of unknown form")
    return data[1:].decode()
