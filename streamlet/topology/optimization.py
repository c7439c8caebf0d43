"""The optimisations of a topology, as values: what may be changed, and what was."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from streamlet.topology.nodes import ProcessorNode
from streamlet.topology.operator import OperatorFactory


@attrs.frozen
class Optimization:
    """One change that an optimisation made: a topic or store that stands for others too.

    Attributes:
        rule: the value of ``topology.optimization`` that asked for it.
        kept: the topic or the store that is there.
        replaced: the topics or stores that are not there because of it.
    """

    rule: str
    kept: str
    replaced: tuple[str, ...]


@attrs.frozen(eq=False)
class MergeableRepartition:
    """A repartition topic that may be merged with others behind the same change of keys.

    Args:
        topic: its name.
        filter: the node in front of its sink that leaves out records without a key.
        sink: the node that writes it.
        source: the node that reads it.
        key: serde of its keys.
        value: serde of the values that come to it; sink and source may have shorter ones.
        keeps_null_keys: whether records without a key may pass, once all operators are known.
        filtering: makes the factory of the filter, given its name and whether null keys may pass.
    """

    topic: str
    filter: str
    sink: str
    source: str
    key: object
    value: object
    keeps_null_keys: Callable[[], bool]
    filtering: Callable[[str, bool], OperatorFactory]


@attrs.frozen(eq=False)
class InnerJoin:
    """An inner join of two streams, which needs one store if both are the same stream.

    Args:
        windowed: the nodes that store the records of the left and of the right side.
        sides: the nodes that join them.
        stores: the stores of both sides.
        alone: the node that joins a stream with itself, in place of that which merges both sides;
            its name is the same. It is below the first node of ``windowed``.
    """

    windowed: tuple[str, str]
    sides: tuple[str, str]
    stores: tuple[str, str]
    alone: ProcessorNode
