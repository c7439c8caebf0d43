"""An application whose processors keep a store of the latest keys, and one of their own."""

from __future__ import annotations

from typing import Any

from streamlet import App, KeyValueStore, ProcessorContext, Record, custom_store, lru_store

LATEST_KEYS = 20


class Places:
    """The places of keys in the order in which they came first, with an index in memory."""

    def __init__(self, rows: KeyValueStore[str, int]) -> None:
        self._rows = rows
        self._places = dict(rows.all())

    def of(self, key: str) -> int:
        """The place of a key, from 1; a new one has the next."""
        if key not in self._places:
            self._places[key] = len(self._places) + 1
            self._rows.put(key, self._places[key])
        return self._places[key]


def own_stores(name: str) -> App:
    """The numbers of the latest keys of a task, and the places of all its keys."""

    def note(record: Record[str, int], context: ProcessorContext[Any, Any]) -> int:
        context.store("latest").put(record.key, record.value)
        place: int = context.store("places").of(record.key)
        return place

    app = App(name)
    stores = [
        lru_store("latest", key=str, value=int, max_entries=LATEST_KEYS),
        custom_store("places", Places, key=str, value=int),
    ]
    events = app.stream(f"{name}-in", key=str, value=int)
    events.process_values(note, stores=stores, value=int).to(f"{name}-places")
    return app
