"""Rows that no store has written, such as forged ones: an error that names the store."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from streamlet.errors import SerdeError, StateError, error_text


@contextmanager
def rows_of_store(store: str) -> Iterator[None]:
    """A block that reads rows of a store.

    Raises:
        StateError: a row cannot be one of the store's.
    """
    try:
        yield
    except (SerdeError, ValueError, LookupError, struct.error) as error:
        why = str(error) if isinstance(error, SerdeError) else error_text(error)
        raise StateError(f"store {store} has a row that it cannot have written: {why}") from error
