"""Files of Avro schemas: the one that a user names, and those of named types beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fastavro.repository.base import AbstractSchemaRepository, SchemaRepositoryError

from streamlet.given_files import bytes_of


class SchemaFiles(AbstractSchemaRepository):
    """Reads schemas for fastavro, each up to a bound."""

    #: What stands for the file that was named, which may be called anything; no type is.
    NAMED = ""

    def __init__(self, file: Path) -> None:
        self._file = file

    def load(self, name: str) -> Any:
        """A schema by the name of its type.

        Raises:
            OSError, ValueError: the file that was named cannot be read, or is no JSON.
            SchemaRepositoryError: the same of one beside it.
        """
        if name == self.NAMED:
            return json.loads(bytes_of(self._file))
        try:
            return json.loads(bytes_of(self._file.with_name(f"{name}.avsc")))
        except (OSError, ValueError) as error:
            raise SchemaRepositoryError(str(error)) from error
