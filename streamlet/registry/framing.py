"""Confluent's framing of records, and the serde of framed records in any language of schemas.

A record is the byte 0, a schema id of 4 bytes, and what the schema describes. Where the schema is
named in a header, that has the id in front of which the byte 0 stands, or the byte 1 and a UUID;
the decoder of records puts it before the bytes. Of Protobuf the numbers of the message follow.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeAlias
from uuid import UUID

import attrs

from streamlet.errors import ConfigError, RegistryError, SerdeError, error_text
from streamlet.lazy_results import never_runs
from streamlet.registry.client import default_registry
from streamlet.registry.kept import Kept
from streamlet.registry.schemas import RegistrySchema, SchemaKind, Schemas
from streamlet.serdes.marks import former_name
from streamlet.serdes.serde import Serde, build, decode_error
from streamlet.user_code import shown

_HEAD, _GUID_HEAD = 5, 17

#: How a subject is named: by the topic, by the record, by both, or by a function of the topic, of
#: ``"key"`` or ``"value"``, and of the record's name. The topic is empty for rows of stores.
Subject: TypeAlias = str | Callable[[str, str, str], str]
_SUBJECTS: dict[str, Callable[[str, str, str], str]] = {
    "topic": lambda topic, role, _: f"{topic}-{role}",
    "record": lambda _topic, _role, name: name,
    "topic-record": lambda topic, _, name: f"{topic}-{name}",
}


@attrs.frozen(eq=False)
class RecordFormat:
    """Records in one language of schemas.

    Attributes:
        kind: the language.
        bare: the serde of what is behind the schema id.
        record: the full name of the record's type.
        schema: the one that records are written by; None: they are only read.
        reader: makes the function that reads what a schema describes.
    """

    kind: SchemaKind
    bare: Serde[Any]
    record: str
    schema: RegistrySchema | None
    reader: Callable[[RegistrySchema], Callable[[bytes], Any]]


def framed(
    records: RecordFormat, registry: Schemas | None, subject: Subject, register: bool
) -> Serde[Any]:
    """The serde of framed records; its ids are those of a topic's subject where it is written.

    Raises:
        ConfigError: there is no such strategy for subjects, or the registry is something else.
    """
    if registry is not None and not callable(getattr(registry, "by_id", None)):
        raise ConfigError([f"registry={shown(registry)}: expected a Registry, as Registry(URL)"])
    if never_runs(subject):
        raise ConfigError(["subject: its calls do nothing by themselves; give a plain function"])
    if not callable(subject) and not (isinstance(subject, str) and subject in _SUBJECTS):
        known = ", ".join(map(repr, _SUBJECTS))
        raise ConfigError([f"subject={shown(subject)}: expected {known} or a function"])
    named = subject if callable(subject) else _SUBJECTS[subject]
    framing = _Framing(records, registry, named, register)
    serde = framing.serde(records.bare, "", "value")
    if records.bare.as_value is None:
        return serde
    return attrs.evolve(serde, as_value=framing.serde(records.bare.as_value, "", "value"))


@attrs.define(eq=False)
class _Framing:
    records: RecordFormat
    registry: Schemas | None
    subject: Callable[[str, str, str], str]
    register: bool
    #: What reads records, by what stands in front of them.
    _readers: Kept[bytes, Callable[[bytes], Any]] = attrs.field(factory=Kept, init=False)

    def serde(self, bare: Serde[Any], topic: str, role: str) -> Serde[Any]:
        """The serde for a topic's keys or values; without a topic, of rows of stores."""

        def encode(value: Any) -> bytes:
            raw: bytes = bare.encode(value)
            return self._head(topic, role) + raw

        def encode_all(column: list[Any]) -> list[bytes]:
            rows = bare.encode_all(column) if bare.encode_all else list(map(bare.encode, column))
            head = self._head(topic, role)
            return [head + raw for raw in rows]

        found = build(
            self.name,
            encode,
            self._decode,
            accepts=bare.accepts,
            immutable=bare.immutable,
            encode_all=encode_all,
            decode_all=self._decode_all,
            declared=bare.declared,
            format="registry",
        )
        return attrs.evolve(
            found,
            fast_copy=bare.copy,
            as_kept=bare.as_kept,
            for_topic=lambda topic, role: self.serde(bare, topic, role),
        )

    @property
    def name(self) -> str:
        """The name of the serde, which stores note: not with a schema, since rows have theirs."""
        return f"registry({former_name(self.records.bare.name)})"

    @property
    def _schemas(self) -> Schemas:
        return default_registry() if self.registry is None else self.registry

    def _head(self, topic: str, role: str) -> bytes:
        """The bytes in front of records that are written now."""
        schema = self.records.schema
        if schema is None:
            raise SerdeError(f"{self.records.bare.name}: it only reads; give a type or a schema")
        name = self.records.record
        subject: Any = self.subject(topic, role, name) if topic else self._of_rows(role, name)
        if not isinstance(subject, str):
            raise RegistryError(f"subject= returned {shown(subject)}: expected a name, a text")
        try:
            number = self._schemas.id_of(subject, schema, register=self.register)
        except (SerdeError, RegistryError):
            raise
        except Exception as error:
            raise _not_asked(error) from error
        return struct.pack(">bI", 0, number)

    def _of_rows(self, role: str, name: str) -> str:
        """The subject of rows of stores, which lie in no topic of the user's."""
        own = self.subject not in _SUBJECTS.values()
        return self.subject("", role, name) if own else name

    def _decode(self, raw: bytes) -> Any:
        head = self._head_of(raw)
        return self._reader(head)(raw[len(head) :])

    def _decode_all(self, column: list[bytes]) -> list[Any]:
        first = column[0][:_HEAD]
        if first[0] or any(raw[:_HEAD] != first for raw in column):
            return list(map(self._decode, column))
        read = self._reader(self._head_of(column[0]))
        return [read(raw[_HEAD:]) for raw in column]

    def _head_of(self, raw: bytes) -> bytes:
        if not isinstance(raw, bytes):
            raise decode_error(self.name, raw, "not bytes")
        size = {b"\0": _HEAD, b"\1": _GUID_HEAD}.get(raw[:1])
        if size is None or len(raw) < size:
            raise decode_error(
                self.name,
                raw,
                "no schema id is in front of it. If no serializer of a schema registry wrote it, "
                "read it with a serde without a registry; an id in a header is not read on Spark",
            )
        return raw[:size]

    def _reader(self, head: bytes) -> Callable[[bytes], Any]:
        found = self._readers.get(head)
        if found is not None:
            return found
        try:
            if head[0]:
                schema = self._schemas.by_guid(str(UUID(bytes=head[1:])))
            else:
                schema = self._schemas.by_id(int.from_bytes(head[1:], "big"))
        except (SerdeError, RegistryError):
            raise
        except Exception as error:
            raise _not_asked(error) from error
        if schema.kind != self.records.kind:
            raise SerdeError(
                f"{self.name}: the record was written by a schema of "
                f"{schema.kind}: read it with sl.registry.{schema.kind.lower()}"
            )
        made = self.records.reader(schema)
        self._readers.keep(head, made, schema.characters)
        return made


def _not_asked(error: Exception) -> RegistryError:
    """The error for one that says nothing of the record: no address, or a bug of a registry's."""
    return RegistryError(f"the schema registry cannot be asked: {error_text(error)}")
