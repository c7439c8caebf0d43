"""Fields of the text beside a committed position, checked where they enter."""

from __future__ import annotations

import base64

from streamlet.bounded import text_of
from streamlet.user_code import shown

#: Bytes of the key of a task.
KEY_BYTES = 12
#: Characters of a key at most.
KEY_CHARS = 80


def key_of(value: object) -> bytes:
    """The key that a text in base 85 must be.

    Raises:
        ValueError, TypeError, AttributeError: it is none.
    """
    if len(text := text_of(value)) > KEY_CHARS:
        raise ValueError(f"a key of {len(text)} characters")
    return base64.b85decode(text)


def flag_of(value: object) -> bool:
    """The value, which must be true or false.

    Raises:
        ValueError, TypeError, AttributeError: it is none.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{shown(value)} is neither true nor false")
    return value
