"""Ownership of results: those of a user's function are copied unless types or code say no."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import attrs

from streamlet.dsl.graph.functions import only_reads, reaches_only_arguments
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.record_context import MARK, ContextFunction, is_marked
from streamlet.dsl.operators.copies import Own, owner
from streamlet.serdes.copies import own

#: Types whose operators call no code of the user's, and give nothing that others have.
_BUILT_IN = (str, bytes, int, float, bool, dict, list)


def owner_of(*kinds: Kind) -> Own:
    """Copies values, or tuples of values, of these kinds."""
    return own if any(owner(kind.serde) for kind in kinds) else None


def owner_of_keys(kind: Kind) -> Own:
    """Copies keys that are known to be of a type that can change, for functions that get them."""
    return None if kind.serde is None else owner(kind.serde)


def with_own_key(function: Any, key: Kind, given: bool = True) -> Any:
    """The function, called with a key of its own, where keys can change.

    The record keeps the one that it has, whatever the function makes of it, and others may have it,
    too: the other results of one record, the next window. ``given``: whether it is called with the
    key, as the first of its arguments.
    """
    if not given or owner_of_keys(key) is None or hasattr(function, "made_of"):
        return function
    if isinstance(function, ContextFunction):
        return attrs.evolve(function, function=with_own_key(function.function, key))

    @functools.wraps(function, updated=())
    def called(key: Any, *more: Any) -> Any:
        return function(own(key), *more)

    if is_marked(function):
        setattr(called, MARK, True)
    return called


def owner_of_results(function: object, of: Sequence[Kind], takes: int, result: Kind) -> Own:
    """Copies what a function returns for a key and values of these kinds, the last ``takes``.

    None: that cannot change, or the function returns nothing but parts of them and new objects. It
    must not be a key that can change, which the record has already.
    """
    if takes == len(of) and owner_of(of[0]):
        return owner_of(result)
    safe = _are_built_in(of[-takes:]) and reaches_only_arguments(function)
    return None if safe else owner_of(result)


def owner_for_reader(function: object, of: Kind, result: Kind) -> Own:
    """Copies the values that a function gets, of whose results none is given to others.

    None: it cannot change them, nor hand on a part of one that can change.
    """
    reads = _are_built_in([of]) and owner(result.serde) is None and only_reads(function)
    return None if reads else owner_of(of)


def reads_arguments(function: object, of: Sequence[Kind]) -> bool:
    """True if a function only looks into what it is given, a key or values of these kinds.

    What it returns may have parts of that. False if that is not known.
    """
    return _are_built_in(of) and only_reads(function)


def _are_built_in(kinds: Sequence[Kind]) -> bool:
    return all(any(one.of is known for known in _BUILT_IN) for one in kinds)
