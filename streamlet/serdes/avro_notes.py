"""Removes the notes that fastavro leaves in schemas that it has parsed."""

from __future__ import annotations

from typing import Any

_NOTES = frozenset({"__fastavro_parsed", "__named_schemas"})


def plain(schema: Any) -> Any:
    """A schema without the notes, which in a stranger's are not to be believed.

    Each type of a union has a note of all of them.
    """
    if isinstance(schema, dict):
        return {name: plain(one) for name, one in schema.items() if name not in _NOTES}
    if isinstance(schema, list):
        return [plain(one) for one in schema]
    return schema.decode("iso-8859-1") if isinstance(schema, bytes) else schema
