"""The text beside a task's stores: their commit, and how far changelogs are read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Self

import attrs

from streamlet.bounded import EPOCH_MAX, INT32_MAX, INT64_MAX, parsed, text_of, whole
from streamlet.errors import StateMismatchError, TaskCorruptedError
from streamlet.serdes.key_marks import key_mark
from streamlet.serdes.marks import is_noted_as, mark_of
from streamlet.state.store_specs import StoreSpec
from streamlet.types import NO_STATE, StateNumber, TopicPartition

#: Since version 2 rows bear times (``state.rows``).
_VERSION = 2

_CHANGED = (
    "Go back to the topology before, or give the changed store another name, or give streamlet "
    "reset to begin without state"
)
_REMOVED = (
    "Go back to the topology before if the store only got another name. If it is not needed any "
    "more, delete the local copies with streamlet state clean --all: the other stores are restored "
    "from their changelogs"
)


def layout_of(stores: Iterable[StoreSpec]) -> dict[str, tuple[str, str]]:
    """The marks of the key and value serde of each store."""
    return {one.name: (key_mark(one.key), mark_of(one.value.name)) for one in stores}


@attrs.frozen
class TaskMeta:
    """Fields as in ``TaskState``; ``layout`` is per store the marks of its key and value serde.

    ``on_disk`` are the stores that the database held when this was written; None if an older
    version of streamlet wrote it, which may have emptied a store and kept its position.
    ``times`` may be missing, as in what earlier versions wrote; those read over it.
    ``inputs`` are the committed input positions that ``state`` belongs to, ``reach`` is the highest
    number that a store may contain; None: unknown. ``latest`` is per store a time, ms, that no row
    is younger than. ``time_indexes`` are the entries of ``state.time_index``. ``headed`` are the
    stores with rows that bear headers.

    Rows of an earlier version bear no times and cannot be read any more (``unreadable``). Then only
    ``layout`` and ``on_disk`` are taken over.
    """

    state: StateNumber
    positions: Mapping[TopicPartition, int]
    epochs: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    layout: Mapping[str, tuple[str, str]]
    on_disk: frozenset[str] | None = None
    times: Mapping[TopicPartition, int] = attrs.field(factory=dict)
    inputs: Mapping[TopicPartition, int] | None = None
    reach: StateNumber | None = None
    latest: Mapping[str, int] = attrs.field(factory=dict)
    unreadable: bool = False
    time_indexes: Mapping[TopicPartition, tuple[tuple[int, int], ...]] = attrs.field(factory=dict)
    headed: frozenset[str] = frozenset()

    def to_bytes(self) -> bytes:
        """Compact JSON."""
        changelogs = [
            [*tp, offset, self.epochs.get(tp, 0)] for tp, offset in sorted(self.positions.items())
        ]
        fields: dict[str, Any] = {
            "v": _VERSION,
            "state": self.state,
            "changelogs": changelogs,
            "topic_ids": dict(self.topic_ids),
            "layout": dict(self.layout),
            "times": [[*tp, at_ms] for tp, at_ms in sorted(self.times.items())],
            "latest": dict(self.latest),
        }
        if self.on_disk is not None:
            fields["on_disk"] = sorted(self.on_disk)
        if self.inputs is not None:
            fields["inputs"] = [[*tp, offset] for tp, offset in sorted(self.inputs.items())]
        if self.reach is not None:
            fields["reach"] = self.reach
        if self.headed:
            fields["headed"] = sorted(self.headed)
        if self.time_indexes:
            fields["time_indexes"] = [[*tp, one] for tp, one in sorted(self.time_indexes.items())]
        return json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, raw: bytes, where: str) -> Self:
        """Read what ``to_bytes`` wrote; ``where`` is for messages.

        Raises:
            TaskCorruptedError: it is something else.
            StateMismatchError: a later version of streamlet wrote it.
        """
        try:
            fields = parsed(raw)
            version = fields["v"]
            if version <= _VERSION:
                layout = {
                    name: (text_of(key), text_of(value))
                    for name, (key, value) in fields["layout"].items()
                }
                on_disk = (
                    frozenset(map(text_of, fields["on_disk"])) if "on_disk" in fields else None
                )
                if version < _VERSION:
                    return cls(NO_STATE, {}, {}, {}, layout, on_disk, unreadable=True)
                rows = [_row_of(*row) for row in fields["changelogs"]]
                return cls(
                    _number(*fields["state"]),
                    {tp: offset for tp, offset, _ in rows},
                    {tp: epoch for tp, _, epoch in rows},
                    {text_of(topic): text_of(one) for topic, one in fields["topic_ids"].items()},
                    layout,
                    on_disk,
                    {_place(t, p): whole(at_ms) for t, p, at_ms in fields.get("times", ())},
                    _inputs_of(fields.get("inputs")),
                    _number(*fields["reach"]) if "reach" in fields else None,
                    {name: whole(one, -INT64_MAX - 1) for name, one in fields["latest"].items()},
                    time_indexes=_time_indexes_of(fields.get("time_indexes", ())),
                    headed=frozenset(map(text_of, fields.get("headed", ()))),
                )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise TaskCorruptedError(f"state in {where} is damaged: {error!r}") from error
        raise StateMismatchError(
            f"state in {where} was written by a later version (format {version})"
        )

    def check_partition(self, partition: int, where: str) -> None:
        """Refuse the state of another task, whose folder was renamed or copied here.

        All positions of a task are of one partition number, its own.

        Raises:
            TaskCorruptedError: it is of another partition.
        """
        found = {tp.partition for tp in (*self.positions, *(self.inputs or ()))} - {partition}
        if found:
            raise TaskCorruptedError(
                f"{where} holds state of partition {min(found)}, not of {partition}"
            )

    def checked(
        self,
        layout: Mapping[str, tuple[str, str]],
        unread: Collection[str],
        changelogs: Collection[TopicPartition],
        where: str,
    ) -> Self:
        """The facts after a comparison with the opened stores, without those of dropped stores.

        Raises:
            StateMismatchError: as ``check_layout``, whose arguments are the same.
            TaskCorruptedError: as ``check_partition``, of each of the ``changelogs``.
        """
        self.check_layout(layout, where, unread)
        for tp in changelogs:
            self.check_partition(tp.partition, where)
        if self.layout.keys() <= layout.keys():
            return self
        topics = {tp.topic for tp in changelogs}
        return attrs.evolve(
            self,
            positions={tp: at for tp, at in self.positions.items() if tp in changelogs},
            epochs={tp: epoch for tp, epoch in self.epochs.items() if tp in changelogs},
            times={tp: at_ms for tp, at_ms in self.times.items() if tp in changelogs},
            topic_ids={name: one for name, one in self.topic_ids.items() if name in topics},
            time_indexes={tp: one for tp, one in self.time_indexes.items() if tp in changelogs},
            layout={name: types for name, types in self.layout.items() if name in layout},
            latest={name: at_ms for name, at_ms in self.latest.items() if name in layout},
            headed=self.headed & layout.keys(),
        )

    def check_layout(
        self,
        layout: Mapping[str, tuple[str, str]],
        where: str,
        unread: Collection[str],
    ) -> None:
        """Compare with the stores of the topology that runs now; new ones may come in.

        ``unread`` are those that may be gone: of tables that read their rows from their topics
        again, should something read them.

        Raises:
            StateMismatchError: a store is gone or has other serdes.
        """
        changes, gone = [], True
        for name, (key, value) in sorted(self.layout.items()):
            now = layout.get(name)
            if now is None and name in unread:
                continue
            if now is None:
                changes.append(f"store {name} is not in the topology any more")
            elif not all(map(is_noted_as, (key, value), now)):
                gone = False
                changes.append(f"store {name} held {key} -> {value}, now {now[0]} -> {now[1]}")
        if changes:
            raise StateMismatchError(
                f"the topology changed under its state in {where}: {'; '.join(changes)}. "
                f"Nothing was changed there. {_REMOVED if gone else _CHANGED}"
            )


def _inputs_of(rows: list[tuple[str, int, int]] | None) -> dict[TopicPartition, int] | None:
    return None if rows is None else {_place(t, p): whole(offset) for t, p, offset in rows}


def _row_of(
    topic: object, partition: object, offset: object, epoch: object
) -> tuple[TopicPartition, int, int]:
    return _place(topic, partition), whole(offset), whole(epoch, 0, EPOCH_MAX)


def _place(topic: object, partition: object) -> TopicPartition:
    return TopicPartition(text_of(topic), whole(partition, 0, INT32_MAX))


def _number(epoch: object, number: object) -> StateNumber:
    return StateNumber(whole(epoch, 0, EPOCH_MAX), whole(number))


def _time_indexes_of(
    rows: Iterable[tuple[str, int, list[tuple[int, int]]]],
) -> dict[TopicPartition, tuple[tuple[int, int], ...]]:
    return {
        _place(topic, partition): tuple(
            (whole(at), whole(time, -INT64_MAX - 1)) for at, time in entries
        )
        for topic, partition, entries in rows
    }
