"""Avro schemas of subscription and assignment, by version.

A later version adds fields or records under a new number and leaves these as they are: members of
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


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_TASKS = _array(_record("Tasks", subtopology="int", partitions=_array("int")))
_ORDERS = _array(_record("Order", subtopology="int", partition="int", member="bytes"))

_SUBSCRIPTION_1 = _record(
    "Subscription",
    instance="bytes",
    name="string",
    member="int",
    capacity="double",
    instance_members="int",
    subtopologies="bytes",
    copies=_array(
        _record(
            "Copies",
            role="int",
            generation="int",
            ready="boolean",
            tasks=_TASKS,
            lags=_array("long"),
        )
    ),
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

#: Version -> parsed schema.
SUBSCRIPTIONS: dict[int, Any] = {1: fastavro.parse_schema(_SUBSCRIPTION_1)}
ASSIGNMENTS: dict[int, Any] = {1: fastavro.parse_schema(_ASSIGNMENT_1)}
