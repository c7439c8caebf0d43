"""Schemas as a registry has them, and the port by which serdes ask for them.

Another registry, such as AWS Glue, is used by a class of one's own with the methods of ``Schemas``.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import attrs

from streamlet.arguments import calls_told_by_form

#: The languages of schemas.
SchemaKind: TypeAlias = Literal["AVRO", "JSON", "PROTOBUF"]


@calls_told_by_form
@attrs.frozen
class SchemaReference:
    """A schema that another one uses: its name there, and where it is registered."""

    name: str
    subject: str
    version: int


@calls_told_by_form
@attrs.frozen
class RegistrySchema:
    """A schema as text.

    ``names`` are the schemas that it refers to, by the names that it has for them, each behind
    those that it needs itself. ``references`` tell where those are registered.
    """

    kind: SchemaKind
    text: str
    references: tuple[SchemaReference, ...] = ()
    names: tuple[tuple[str, str], ...] = ()

    @property
    def characters(self) -> int:
        """The characters of its text and of those that it refers to."""
        return len(self.text) + sum(len(text) for _, text in self.names)


class Schemas(Protocol):
    """A registry as serdes use it."""

    def by_id(self, schema_id: int) -> RegistrySchema:
        """The schema with this id.

        Raises:
            SerdeError: there is none; the record is at fault.
            RegistryError: the registry refuses to say.
            UnreachableRegistryError: it does not answer; the application waits for it.
        """
        ...

    def by_guid(self, guid: str) -> RegistrySchema:
        """The schema with this UUID, as headers name it; as ``by_id``."""
        ...

    def id_of(self, subject: str, schema: RegistrySchema, *, register: bool) -> int:
        """The id of a schema under a subject.

        Args:
            subject: such as ``orders-value``.
            schema: what records are written by.
            register: register it if it is not there.

        Raises:
            RegistryError: it is not there, or not compatible with earlier versions.
            UnreachableRegistryError: the registry does not answer.
        """
        ...
