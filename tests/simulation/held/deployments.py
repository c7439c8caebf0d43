"""Deployments of one application: topologies whose functions may vary before some topics."""

from __future__ import annotations

from functools import cache
from typing import Any

import streamlet as sl
from streamlet.topology.graph import Topology

#: Whether a replay may write other records to each topic; None: ``repartition.exact`` is false;
#: empty: tasks commit by transactions.
Deployment = tuple[bool, bool] | tuple[()] | None
FORMS: tuple[Deployment, ...] = ((False, False), (False, True), (True, False), (True, True))
#: What all members of the group can read: origins, and what waits.
READABLE = ((False, False), (True, False), (True, True))


def topics_of(count: int) -> list[str]:
    """The names of so many repartition topics in a row."""
    return [f"a-t{number}-repartition" for number in range(count)]


@cache
def topology_of(varies: tuple[bool, ...]) -> Topology:
    """The topology of an application whose functions before each topic are such."""
    app = sl.App("a")
    stream: sl.KStream[Any, Any] = app.stream("in", key=str, value=int)
    for number, one in enumerate(varies):
        mapped = stream.map(_varying if one else _constant, key=str, value=int)
        stream = mapped.repartition(name=f"t{number}")
    stream.to("out")
    return app.topology()


def _constant(key: str, value: int) -> tuple[str, int]:
    return key, value


@sl.non_deterministic
def _varying(key: str, value: int) -> tuple[str, int]:
    return key, value
