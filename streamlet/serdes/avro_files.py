"""Schemas that use named types of other texts: those of a registry, or of files beside a file."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fastavro.repository.base import AbstractSchemaRepository, SchemaRepositoryError
from fastavro.schema import SchemaParseException

from streamlet.given_files import bytes_of
from streamlet.serdes.avro_notes import plain


class SchemaTexts(AbstractSchemaRepository):
    """Reads schemas for fastavro, which loads each type that it does not know from here.

    It loads one again for as long as it does not know it, and those that one needs before: a text
    of another type, or a circle, would overflow the stack and end the process.
    """

    #: What stands for the schema that is wanted, which may be called anything; no type is.
    WANTED = ""

    def __init__(self) -> None:
        self._mentions: dict[str, frozenset[str]] = {}

    @abstractmethod
    def text_of(self, name: str) -> str | bytes:
        """The text of a schema, as of ``load``."""

    def load(self, name: str) -> Any:
        """A schema by the name of its type.

        Raises:
            OSError, ValueError: the schema that is wanted cannot be read, or is no JSON.
            SchemaRepositoryError: the same of one that it uses.
            SchemaParseException: it is of another type, or uses itself by way of others.
        """
        if name == self.WANTED:
            if name in self._mentions:
                raise SchemaParseException("a type has no name")
            schema = plain(json.loads(self.text_of(name)))
        else:
            try:
                schema = plain(json.loads(self.text_of(name)))
            except (OSError, ValueError, KeyError) as error:
                raise SchemaRepositoryError(str(error)) from error
            found = _full_name(schema, "") if isinstance(schema, dict) else None
            if found != name:
                raise SchemaParseException(f"the schema of {name:.200} is of another type: {found}")
        self._mentions[name] = frozenset(_mentioned(schema))
        self._check_circle(name)
        return schema

    def _check_circle(self, name: str) -> None:
        seen, todo = set[str](), [name]
        while todo:
            outer = todo.pop()
            for one in self._mentions.get(outer, frozenset()) - seen:
                if one == name != outer:
                    raise SchemaParseException(
                        f"{name:.200} and {outer:.200} use each other: put both types into one text"
                    )
                seen.add(one)
                todo.append(one)


class SchemaFiles(SchemaTexts):
    """The file that a user names, and those of named types beside it, each up to a bound."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def text_of(self, name: str) -> bytes:
        """The bytes of a file."""
        beside = self._file.with_name(f"{name}.avsc")
        return bytes_of(self._file if name == self.WANTED else beside)


class RegistryTexts(SchemaTexts):
    """A text, and those of the types that it uses by their full names."""

    def __init__(self, text: str, names: Mapping[str, str]) -> None:
        super().__init__()
        self._texts = {**names, self.WANTED: text}

    def text_of(self, name: str) -> str:
        """One of the texts."""
        return self._texts[name]


def _full_name(schema: Mapping[str, Any], outer: str) -> str | None:
    """The name of a type with its namespace, which may be the one around it."""
    name, namespace = schema.get("name"), schema.get("namespace", outer)
    if not isinstance(name, str):
        return None
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _mentioned(schema: Any) -> Iterator[str]:
    """Full names of the types that stand in a schema by name."""
    todo = [(schema, "")]
    while todo:
        one, outer = todo.pop()
        if isinstance(one, str):
            yield one if "." in one or not outer else f"{outer}.{one}"
            yield one
        elif isinstance(one, list):
            todo += [(part, outer) for part in one]
        elif isinstance(one, dict):
            inner = (_full_name(one, outer) or f"{outer}.").rpartition(".")[0]
            fields = one.get("fields")
            parts = [one.get(name) for name in ("type", "items", "values")]
            parts += [part.get("type") for part in fields or () if isinstance(part, dict)]
            todo += [(part, inner) for part in parts]
