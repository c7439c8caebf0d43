"""Refuses a topology with made-up names, for ``ensure.explicit.internal.resource.naming``."""

from __future__ import annotations

from streamlet.errors import TopologyError
from streamlet.topology.graph import Topology


def check_explicit_names(topology: Topology) -> None:
    """Look for stores and repartition topics whose names were made up, as KIP-1111 has it.

    Raises:
        TopologyError: there are some; all of them are in the message.
    """
    parts = topology.subtopologies
    stores = sorted(spec.name for part in parts for spec in part.stores if not spec.named)
    topics = sorted(t.name for part in parts for t in part.repartitions if not t.named)
    found = [
        f"{what}: {', '.join(names)}"
        for what, names in (("stores (store=)", stores), ("repartition topics (name=)", topics))
        if names
    ]
    if found:
        raise TopologyError(
            f"{topology.application}: ensure.explicit.internal.resource.naming is on, and names "
            f"were made up of {'; '.join(found)}"
        )
