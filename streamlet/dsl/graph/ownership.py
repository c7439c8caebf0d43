"""Ownership of results: those of a user's function are copied unless types or code say no."""

from __future__ import annotations

from collections.abc import Sequence

from streamlet.dsl.graph.functions import reaches_only_arguments
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.operators.copies import _BUILT_IN, Own, owner
from streamlet.serdes.copies import own


def owner_of(*kinds: Kind) -> Own:
    """Copies values, or tuples of values, of these kinds."""
    return own if any(owner(kind.serde) for kind in kinds) else None


def owner_of_results(function: object, of: Sequence[Kind], takes: int, result: Kind) -> Own:
    """Copies what a function returns for a key and values of these kinds, the last ``takes``.

    None: that cannot change, or the function returns nothing but parts of them and new objects. It
    must not be a key that can change, which the record has already.
    """
    given = of[-takes:]
    if takes == len(of) and owner_of(of[0]):
        return owner_of(result)
    built_in = all(any(one.of is known for known in _BUILT_IN) for one in given)
    return None if built_in and reaches_only_arguments(function) else owner_of(result)
