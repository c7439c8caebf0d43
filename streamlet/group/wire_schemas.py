"""Avro schemas of subscription and assignment, by version.

A later version adds or changes fields under a new number and leaves these as they are: members of
both versions meet in one group during a rolling upgrade.
"""

from __future__ import annotations

from typing import Any

import fastavro


def _record(record: str, /, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": record,
        "fields": [{"name": key, "type": kind} for key, kind in fields.items()],
    }


def _extended(schema: dict[str, Any], /, **fields: Any) -> dict[str, Any]:
    more = [{"name": key, "type": kind} for key, kind in fields.items()]
    return {**schema, "fields": [*schema["fields"], *more]}


def _changed(schema: dict[str, Any], /, **kinds: Any) -> dict[str, Any]:
    fields = [{**one, "type": kinds.get(one["name"], one["type"])} for one in schema["fields"]]
    return {**schema, "fields": fields}


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_TASKS = _array(_record("Tasks", subtopology="int", partitions=_array("int")))
_ORDERS = _array(_record("Order", subtopology="int", partition="int", member="bytes"))
_COPIES = _record(
    "Copies", role="int", generation="int", ready="boolean", tasks=_TASKS, lags=_array("long")
)

_SUBSCRIPTION_1 = _record(
    "Subscription",
    instance="bytes",
    name="string",
    member="int",
    capacity="double",
    instance_members="int",
    subtopologies="bytes",
    copies=_array(_COPIES),
    instance_id=["null", "string"],
    leaving=["null", _record("Leaving", since_ms="long", deadline_ms=["null", "long"])],
    deferral_deadline_ms=["null", "long"],
    tags={"type": "map", "values": "string"},
    joined_generation="int",
    nonce="long",
    wants_type=["null", "string"],
    learners="boolean",
    stateful=_array("int"),
    imbalance=["null", "double"],
    started_ms="long",
)

_ASSIGNMENT_1 = _record(
    "Assignment",
    active=_TASKS,
    learner=_array("Tasks"),
    standby=_array("Tasks"),
    revoke=_array("Tasks"),
    release=_ORDERS,
    pending=_array("Order"),
    leave="boolean",
    follow_up_ms=["null", "long"],
    deferral_deadline_ms=["null", "long"],
    error="int",
    leader="bytes",
    answers_nonce="long",
    answers_identity="bytes",
    generation="int",
    made_ms=["null", "long"],
    reason="string",
    being_learned=_array("Tasks"),
)

#: Version 2 adds modes, changes of the protocol type, and why a member rejoined.
_FLIP = _record("Flip", protocol_type="string", members="int", until_ms="long")
_SUBSCRIPTION_2 = _extended(
    _SUBSCRIPTION_1, mode=["null", "string"], flip=["null", _FLIP], reason="string"
)
_ASSIGNMENT_2 = _extended(_ASSIGNMENT_1, flip=["null", _FLIP])

#: Version 3 adds when to begin to release tasks.
_ASSIGNMENT_3 = _extended(_ASSIGNMENT_2, turn_ms="int")

#: Version 4 adds the instances that replace a leaving one, the tasks without a member, and what
#: each subtopology has, by which two topologies compare their numbers.
_SUBSCRIPTION_4 = _extended(_SUBSCRIPTION_2, successors=_array("bytes"), belongings=_array("bytes"))
_ASSIGNMENT_4 = _extended(_ASSIGNMENT_3, unassigned=_array("Tasks"))

#: Version 5 adds the standbys whose readiness the group waits for.
_ASSIGNMENT_5 = _extended(_ASSIGNMENT_4, awaited=_array("Tasks"))

#: The fields of an assignment that are lists of tasks.
TASK_SETS = ("active", "learner", "standby", "awaited", "revoke", "being_learned", "unassigned")

#: Version 6 changes lists of tasks to columns of numbers, see ``wire_tasks``.
_COLUMN = _array("long")
_SUBSCRIPTION_6 = _changed(_SUBSCRIPTION_4, copies=_array(_changed(_COPIES, tasks=_COLUMN)))
_ASSIGNMENT_6 = _changed(_ASSIGNMENT_5, **dict.fromkeys(TASK_SETS, _COLUMN))

#: Version 7 adds whether repartition topics may bear prefixes.
_ASSIGNMENT_7 = _extended(_ASSIGNMENT_6, prefixes="boolean")

_SUBSCRIPTIONS = (
    _SUBSCRIPTION_1,
    *[_SUBSCRIPTION_2] * 2,
    *[_SUBSCRIPTION_4] * 2,
    *[_SUBSCRIPTION_6] * 2,
)
_ASSIGNMENTS = (
    _ASSIGNMENT_1,
    _ASSIGNMENT_2,
    _ASSIGNMENT_3,
    _ASSIGNMENT_4,
    _ASSIGNMENT_5,
    _ASSIGNMENT_6,
    _ASSIGNMENT_7,
)

#: Version -> parsed schema.
SUBSCRIPTIONS: dict[int, Any] = {
    version: fastavro.parse_schema(schema) for version, schema in enumerate(_SUBSCRIPTIONS, start=1)
}
ASSIGNMENTS: dict[int, Any] = {
    version: fastavro.parse_schema(schema) for version, schema in enumerate(_ASSIGNMENTS, start=1)
}
