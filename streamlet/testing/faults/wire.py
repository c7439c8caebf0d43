"""Kafka's frames: requests and answers with their length in front, read and written again.

kafka-python knows the schema of each message. Requests of a kind or version that it does not know
go through unread.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any
from uuid import UUID

import attrs

from streamlet.absent import explains_misuse

with warnings.catch_warnings():
    # kafka-python reads its schemas by a call that Python calls deprecated; not our users' concern.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import kafka_errors
    from kafka.protocol import admin, consumer, metadata, producer, sasl
    from kafka.protocol.data_container import DataContainer

#: A message as kafka-python has it: attributes by the names of Kafka's schemas, in snake_case.
Message = Any

API_VERSIONS = 18
#: UNSUPPORTED_VERSION
_UNSUPPORTED = 35
_LENGTH = struct.Struct(">i")
_BEGINNING = struct.Struct(">hhi")


def _pairs() -> Iterator[tuple[int, tuple[str, Any, Any]]]:
    for module in (admin, consumer, metadata, producer, sasl):
        for name, request in vars(module).items():
            api, is_request, _ = name.partition("Request")
            if is_request and name == f"{api}Request" and getattr(request, "API_KEY", None):
                yield request.API_KEY, (api, request, getattr(module, f"{api}Response"))
    yield 0, ("Produce", producer.ProduceRequest, producer.ProduceResponse)


#: Number of a request's kind -> its name, and the classes of request and answer.
KNOWN: dict[int, tuple[str, Any, Any]] = dict(_pairs())
#: The kinds of requests by name, as ``Produce`` or ``OffsetCommit``.
APIS: dict[str, int] = {name: key for key, (name, _, _) in KNOWN.items()}
#: Errors that kafka-python calls otherwise than Kafka does.
_AS_KAFKA_HAS_THEM = {
    -1: "UNKNOWN_SERVER_ERROR",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
}
#: The errors of Kafka's protocol: their numbers by name, as ``NOT_COORDINATOR``.
ERRORS: dict[str, int] = {
    _AS_KAFKA_HAS_THEM.get(one.errno, one.message): one.errno
    for one in kafka_errors.values()
    if one.errno
}


@explains_misuse
@attrs.define(slots=False)
class ProxiedRequest:
    """A request on its way to a broker.

    Attributes:
        frame: its bytes, with the length in front.
        broker: the node number of the broker it goes to; None while that is not known.
    """

    frame: bytes = attrs.field(repr=False)
    broker: int | None = None
    _names: Mapping[UUID, str] = attrs.field(factory=dict, repr=False)

    @cached_property
    def _beginning(self) -> tuple[int, int, int]:
        key, version, correlation = _BEGINNING.unpack_from(self.frame, _LENGTH.size)
        return key, version, correlation

    @property
    def api(self) -> str:
        """The kind, as ``Produce`` or ``OffsetCommit``; its number if that has no name here."""
        known = KNOWN.get(self.key)
        return str(self.key) if known is None else known[0]

    @property
    def key(self) -> int:
        """The number of the kind."""
        return self._beginning[0]

    @property
    def version(self) -> int:
        """The version of the request and of its answer."""
        return self._beginning[1]

    @property
    def correlation(self) -> int:
        """The number that the request and its answer share."""
        return self._beginning[2]

    @property
    def known(self) -> bool:
        """True if ``body`` can be read."""
        known = KNOWN.get(self.key)
        return known is not None and self.version <= known[1].max_version

    @cached_property
    def client_id(self) -> str | None:
        """The client's ``client.id``."""
        at = _LENGTH.size + _BEGINNING.size
        (length,) = struct.unpack_from(">h", self.frame, at)
        return None if length < 0 else self.frame[at + 2 : at + 2 + length].decode(errors="replace")

    @cached_property
    def body(self) -> Message:
        """The request, by the names of Kafka's schema in snake_case (``body.topic_data``)."""
        request = KNOWN[self.key][1]
        return request.decode(self.frame[_LENGTH.size :], version=self.version, header=True)

    @cached_property
    def topics(self) -> list[str]:
        """The topics that the request names, each once; empty for a request of another kind."""
        return list(dict.fromkeys(self._named())) if self.known else []

    def _named(self) -> Iterator[str]:
        for holder in (self.body, *self._list("groups"), *self._list("transactions")):
            for field in ("topic_data", "topics", "v3_and_below_topics"):
                for topic in getattr(holder, field, None) or ():
                    name: str = getattr(topic, "name", "") or getattr(topic, "topic", "")
                    by_id: UUID | None = getattr(topic, "topic_id", None)
                    yield name or ("" if by_id is None else self._names.get(by_id, ""))

    def _list(self, field: str) -> list[Message]:
        return getattr(self.body, field, None) or []

    @property
    def answered(self) -> bool:
        """False for a Produce request with ``acks=0``."""
        return self.key != 0 or not self.known or self.body.acks != 0

    def answer(self, frame: bytes) -> Message:
        """Read the answer to this request."""
        response = KNOWN[self.key][2]
        return response.decode(frame[_LENGTH.size :], version=self.version, header=True)

    def new_answer(self, **fields: object) -> Message:
        """An answer to this request with these fields; the others have their defaults."""
        response = KNOWN[self.key][2]
        made = response(version=self.version, **fields)
        made.with_header(correlation_id=self.correlation)
        return made

    def written(self, answer: Message) -> bytes:
        """The frame of an answer to this request."""
        return bytes(answer.encode(header=True, framed=True))


def versions_answer(request: ProxiedRequest, frame: bytes) -> bytes:
    """The broker's answer to ApiVersions without what this module cannot read.

    So a client that is newer than kafka-python speaks older versions.
    """
    (error,) = struct.unpack_from(">h", frame, _LENGTH.size + 4)
    version = 0 if error == _UNSUPPORTED else request.version
    answer = metadata.ApiVersionsResponse.decode(
        frame[_LENGTH.size :], version=version, header=True
    )
    for one in answer.api_keys:
        if one.api_key in KNOWN:
            one.max_version = min(one.max_version, KNOWN[one.api_key][1].max_version)
    return bytes(answer.encode(header=True, framed=True))


def unsupported_versions(request: ProxiedRequest) -> bytes:
    """The answer to an ApiVersions request that is newer than this module, as KIP-511 has it."""
    newest = metadata.ApiVersionsRequest.max_version
    kind = metadata.ApiVersionsResponse.fields["api_keys"].data_class
    keys = [kind(version=0, api_key=API_VERSIONS, min_version=0, max_version=newest)]
    answer = metadata.ApiVersionsResponse(version=0, error_code=_UNSUPPORTED, api_keys=keys)
    answer.with_header(correlation_id=request.correlation)
    return bytes(answer.encode(header=True, framed=True))


def is_message(value: object) -> bool:
    """True for a message and for a part of one."""
    return isinstance(value, DataContainer)


def correlation_of(frame: bytes) -> int:
    """The number of the request that an answer belongs to."""
    return int(_LENGTH.unpack_from(frame, _LENGTH.size)[0])


def length_of(head: bytes) -> int:
    """The bytes that follow a frame's first four."""
    return int(_LENGTH.unpack(head)[0])
