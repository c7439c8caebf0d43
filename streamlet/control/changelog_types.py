"""Compares the types of stores with those that the rows of their changelogs were written as. Pure.

A folder notes the types of the stores that it has. Where all folders are gone only the changelogs
are left, whose rows bear no types: those are in the control topic, noted by the member that leads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from streamlet.control.values import ChangelogTypes
from streamlet.control.view import ControlView
from streamlet.errors import StateMismatchError
from streamlet.serdes.marks import is_noted_as


def check_types(now: Iterable[ChangelogTypes], view: ControlView, ids: Mapping[str, str]) -> None:
    """Refuse stores with other types than their changelogs have.

    Args:
        now: the changelogs of the topology that is to run.
        view: of the control topic.
        ids: of the changelogs there are.

    Raises:
        StateMismatchError: naming each store, both types, and what can be done.
    """
    changes = [
        f"store {one.store} held {' -> '.join(was.types)}, now {' -> '.join(one.types)}"
        for one in now
        if (was := _noted(one, view, ids)) is not None
        and not all(map(is_noted_as, was.types, one.types))
    ]
    if changes:
        raise StateMismatchError(
            f"the topology changed under its state in changelogs: {'; '.join(changes)}. Nothing "
            "was changed there. Go back to the topology before, or give the changed store another "
            "name, or give streamlet reset to begin without state"
        )


def unnoted(
    now: Iterable[ChangelogTypes], view: ControlView, ids: Mapping[str, str]
) -> list[ChangelogTypes]:
    """The entries for these changelogs that are missing in the control topic."""
    return [
        attrs.evolve(one, topic_id=ids[one.changelog])
        for one in now
        if one.changelog in ids and _noted(one, view, ids) is None
    ]


def _noted(one: ChangelogTypes, view: ControlView, ids: Mapping[str, str]) -> ChangelogTypes | None:
    """The entry about the topic there is; None: there is no such topic, or no such entry."""
    was = view.types.get(one.changelog)
    there = ids.get(one.changelog)
    return None if was is None or there != was.topic_id else was
