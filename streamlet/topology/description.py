"""The topology's description in the control topic, for commands without the program."""

from __future__ import annotations

from importlib.metadata import version

from streamlet.control.values import Description
from streamlet.topology.describe import as_java, as_json, as_mermaid, as_optimized_text
from streamlet.topology.graph import Topology

#: Characters of all forms together. A broker takes a record of 1 MB, and every member reads it.
MOST_CHARS = 400_000


def description(topology: Topology, member: str = "") -> Description:
    """A topology in every form in which it is printed; ``member`` notes it, "" without a group."""
    forms = {
        "text": as_optimized_text(topology),
        "java": as_java(topology),
        "mermaid": as_mermaid(topology),
    }
    return Description(member, version("streamlet"), as_json(topology), forms)


def noted(topology: Topology, member: str) -> Description | None:
    """The description that a member writes as the leader; None if it is too large for a record."""
    found = description(topology, member)
    return None if sum(map(len, found.forms.values())) > MOST_CHARS else found
