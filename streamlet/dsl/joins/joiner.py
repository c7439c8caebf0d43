"""The user's function that makes the results of a join, and what becomes of what it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.graph.functions import makes_new
from streamlet.dsl.graph.inference import result_type
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.ownership import (
    owner_of,
    owner_of_results,
    reads_arguments,
    with_own_key,
)
from streamlet.dsl.operators.columns import collect
from streamlet.dsl.operators.copies import Own, apart, snapshots
from streamlet.topology.nodes import Values


@attrs.frozen
class Joiner:
    """A function of two values, or of one or two keys before them.

    Args:
        function: the function.
        takes: how many arguments it takes.
        own: makes copies of what it returns; None: that cannot change, or nothing else has it.
        reads: whether it only looks into what it is given, so that this needs no copies.
        new: whether all that it returns is a dict or list that it has made.
    """

    function: Callable[..., Any]
    takes: int
    own: Own
    reads: bool = False
    new: bool = False

    @classmethod
    def of(cls, function: Any, kinds: Sequence[Kind], takes: int, result: Kind) -> Joiner:
        """The joiner of a key and values of these kinds, of which it takes the last."""
        reads = reads_arguments(function, kinds[-takes:])
        made = with_own_key(function, kinds[0], takes == len(kinds))
        own = owner_of(result) if reads else owner_of_results(function, kinds, takes, result)
        return cls(made, takes, own, reads, reads and makes_new(function))

    @property
    def values(self) -> Values:
        """The use that its node makes of values (``ProcessorNode.values``)."""
        return "read" if self.reads else "used"

    def given(self, of: Own) -> Own:
        """Makes copies of what the function is given, where it may change that."""
        return None if self.reads else of

    def column(
        self, arguments: Iterable[Iterable[Any]], count: int
    ) -> tuple[list[Any], BaseException | None]:
        """The results for columns of so many arguments, and what the next one failed on."""
        results = map(self.function, *arguments)
        if not self.reads:
            return collect(snapshots(results, self.own), count)
        out, error = collect(results, count)
        return apart(out, self.own, new=self.new), error

    def one(self, *arguments: Any) -> Any:
        """The result for one pair of rows or values."""
        made = self.function(*arguments)
        return made if self.own is None else self.own(made)


def joiner_of(
    call: str, builder: Builder, function: Any, kinds: Sequence[Kind], takes: int, value: Any
) -> tuple[Joiner, Kind]:
    """The joiner of a key and values of these kinds, and the kind of its results.

    Args:
        call: the method.
        builder: of the application.
        function: the user's.
        kinds: of the key or keys and the values.
        takes: how many of them it takes, the last ones.
        value: the type of its results, if the user gave one.
    """
    inferred = result_type(function, *(kind.of for kind in kinds[-takes:]))
    result = builder.result(value, inferred, call, "value")
    return Joiner.of(function, kinds, takes, result), result
