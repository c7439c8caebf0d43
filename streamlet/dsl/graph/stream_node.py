"""The origin of a stream: what the streams and tables that are made of it need to know."""

from __future__ import annotations

from typing import Protocol

import attrs

from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.graph.kinds import Kind


@attrs.frozen(eq=False)
class StreamNode:
    """The origin of a stream: its node, and what its source node needs.

    ``rekeyed``: the key may have changed since the records were partitioned by it. ``children`` are
    the names that the processor above can forward to; None: it is none.
    """

    builder: Builder
    name: str
    rekeyed: bool = False
    children: set[str] | None = None


class StreamFace(Protocol):
    """A ``KStream``, as joins see it."""

    _node: StreamNode
    _key: Kind
    _value: Kind
