"""``BranchedKStream``: the branches of a stream, of which each record goes to the first that fits.

One node computes the number of the branch of each record, as a column of the batch; each branch is
a node below it that takes its own records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from streamlet.absent import explains_misuse
from streamlet.arguments import calls_told_by_form, check_callable, never_by_hand
from streamlet.dsl.expressions import plain
from streamlet.dsl.graph.functions import check_not_marked, check_takes
from streamlet.dsl.graph.ownership import with_own_key
from streamlet.dsl.graph.record_context import ContextFunction, applied
from streamlet.dsl.graph.stream_node import StreamNode
from streamlet.dsl.operators.branches import NO_BRANCH, NumberBranches, NumberTwo, TakeBranch
from streamlet.errors import TopologyError
from streamlet.lazy_results import refuse_answer
from streamlet.user_code import listed, shown

if TYPE_CHECKING:
    from streamlet.dsl.stream import KStream

K = TypeVar("K")
V = TypeVar("V")


@explains_misuse
@never_by_hand("KStream.split() makes it")
@calls_told_by_form
class BranchedKStream(Generic[K, V]):
    """Made by ``KStream.split``; a record goes to the first branch whose predicate is true."""

    def __init__(self, stream: KStream[K, V], name: str) -> None:
        self._stream = stream
        self._name = name
        self._predicates: list[Any] = []
        #: Number of the default branch, for records that fit no other.
        self._default = NO_BRANCH
        self._branches: dict[str, KStream[K, Any]] = {}
        self._finished = False
        self._node = stream._below(
            "KSTREAM-BRANCH-",
            lambda context: self._operator()(context),
            name or None,
            results="same",
        )

    def branch(
        self,
        predicate: Callable[[K, V], object],
        *,
        name: str | None = None,
        chain: Callable[[KStream[K, V]], KStream[K, Any] | None] | None = None,
    ) -> BranchedKStream[K, V]:
        """Adds a branch of the records for which ``predicate(key, value)`` is true.

        ``name`` is the branch's, after that of ``split``; without it, its number from 1 on.
        ``chain`` is given the branch's stream at once; the stream that it returns takes the
        branch's place in the result, and with None the branch is not in it.

        - Nulls: the predicate gets them as None.
        - Key, timestamp, headers: kept.

        Raises:
            TopologyError: the split is finished, or has a branch of this name.

        Examples:
            >>> split = orders.split().branch(lambda item, pieces: pieces > 9, name="large")
            >>> rest = split.branch(lambda item, pieces: True, chain=lambda some: some.to("small"))
            >>> list(rest.no_default_branch())
            ['large']
            >>> run(orders=[("lamp", 3), ("desk", 12)])
            {'small': [('lamp', 3)]}
        """
        made = plain(predicate, self._stream._value.of)
        check_takes("branch()", made, "key", "value", context=True)
        check_not_marked("branch()", made)
        number = len(self._predicates)
        self._add("branch()", str(number + 1) if name is None else name, number, chain)
        self._predicates.append(with_own_key(made, self._stream._key))
        return self

    def default_branch(
        self,
        *,
        name: str | None = None,
        chain: Callable[[KStream[K, V]], KStream[K, Any] | None] | None = None,
    ) -> dict[str, KStream[K, Any]]:
        """Adds the branch of all other records; all branches by their names.

        Arguments as of ``branch``; without a name it is called 0.

        - Nulls: kept.
        - Key, timestamp, headers: kept.

        Raises:
            TopologyError: as ``branch``.

        Examples:
            >>> large = orders.split().branch(lambda item, pieces: pieces > 9, name="large")
            >>> large.default_branch(name="small")["small"].to("small")
            >>> run(orders=[("lamp", 3), ("desk", 12)])
            {'small': [('lamp', 3)]}
        """
        self._add("default_branch()", "0" if name is None else name, len(self._predicates), chain)
        self._default = len(self._predicates)
        return self.no_default_branch()

    def no_default_branch(self) -> dict[str, KStream[K, Any]]:
        """All branches by their names; records that fit none are left out.

        - Nulls: kept.
        - Key, timestamp, headers: kept.

        Examples:
            >>> large = orders.split().branch(lambda item, pieces: pieces > 9, name="large")
            >>> large.no_default_branch()["large"].to("large")
            >>> run(orders=[("lamp", 3), ("desk", 12)])
            {'large': [('desk', 12)]}
        """
        self._finished = True
        return _Branches(self._branches)

    def _add(self, call: str, name: str, number: int, chain: Any) -> None:
        if self._finished:
            raise TopologyError(f"{call}: the split has all its branches already")
        if not name:
            raise TopologyError(f"{call}: name= is an empty text")
        if chain is not None:
            check_callable(call, chain, "chain=, a function of a stream")
            check_takes(f"{call}, chain=", chain, "stream")
        node = f"{self._node.name}{name}"
        name = f"{self._name}{name}"
        if name in self._branches:
            raise TopologyError(f"{call}: there are two branches named {shown(name)}")
        parent, above = self._stream, self._node
        above.builder.graph.new_name(node)  # a number is used up, as in Kafka Streams
        above.builder.named_processor(
            node,
            (above.name,),
            lambda _: TakeBranch(number),
            results="same",
            values="passed on",
        )
        own = StreamNode(above.builder, node, above.rekeyed)
        branch: Any = type(parent)(own, parent._key, parent._value)
        if chain is not None:
            branch = chain(branch)
            if branch is not None and not isinstance(branch, type(parent)):
                raise TopologyError(
                    f"{call}: chain= returned {shown(branch)}, not a stream or None"
                )
        if branch is not None:
            self._branches[name] = branch

    def _operator(self) -> Any:
        """The factory of the operator, once all branches are known."""
        if len(self._predicates) == 1 and not isinstance(self._predicates[0], ContextFunction):
            (predicate,) = self._predicates
            return lambda _: NumberTwo(predicate, self._default)
        return applied(chosen(tuple(self._predicates), self._default), NumberBranches)


class _Branches(dict[str, Any]):
    """The branches by their names; another name is answered with those."""

    def __missing__(self, name: object) -> Any:
        raise KeyError(f"no branch is called {shown(name)}; there are: {listed(self) or 'none'}")


def chosen(predicates: tuple[Any, ...], default: int) -> Any:
    """A function of the number of the first predicate that is true, else ``default``."""
    if not any(isinstance(one, ContextFunction) for one in predicates):

        def number(key: Any, value: Any) -> int:
            for index, predicate in enumerate(predicates):
                answer = predicate(key, value)
                if answer:
                    if answer is not True:
                        refuse_answer(answer)
                    return index
            return default

        return number
    asking = [(one, isinstance(one, ContextFunction)) for one in predicates]

    def number_in_context(key: Any, value: Any, context: Any) -> int:
        for index, (predicate, asks) in enumerate(asking):
            answer = predicate(key, value, context) if asks else predicate(key, value)
            if answer:
                refuse_answer(answer)
                return index
        return default

    return ContextFunction(number_in_context)
