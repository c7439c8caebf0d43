"""Many rows on their way to the disk, in pieces between which other threads go on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import attrs

from streamlet.columnwise import sorted_rows
from streamlet.state.backing import Columns, StorageEngine

#: Rows of one store that go to the disk at once: RocksDB's client takes them without letting
#: another thread have the interpreter, 100,000 for 100 to 250 ms, in which no query is answered.
PIECE_ROWS = 1_000


def write_ahead(
    disk: StorageEngine | None,
    columns: Sequence[Columns],
    logged: Collection[str],
    between: Callable[[], bytes],
    *,
    bulk: bool = False,
) -> list[Columns]:
    """Put most of many rows on the disk; the rest is to be written with the meta behind them.

    Only rows of stores that are ``logged``: changelogs have them as well. What the disk says
    meanwhile is ``between``: its stores are between two commits. So who opens them after a crash
    reads these rows again, from the positions before them. ``bulk``: very many go as one sorted
    file.
    """
    many = [p for p in columns if len(p.keys) > PIECE_ROWS and p.store in logged]
    if disk is None or not many:
        return [*columns]
    disk.write([], between())
    for part in many:
        if bulk and len(part.keys) >= disk.bulk_records:
            disk.bulk(part)
            continue
        keys, values = sorted_rows(part.keys, part.values)  # a memtable takes neighbours sooner
        for piece in attrs.evolve(part, keys=keys, values=values).pieces(PIECE_ROWS):
            disk.write_ahead(piece)
    return [attrs.evolve(p, keys=[], values=[]) if p in many else p for p in columns]
