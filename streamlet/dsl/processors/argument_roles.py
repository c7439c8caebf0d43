"""The roles of the arguments that a function of ``process`` takes behind its record.

An annotation decides: ``ProcessorContext`` is the context; ``State``, a dict or a ``TypedDict`` is
the state of the key. Without one the name does: ``context`` or ``ctx``, and ``state``. Any other
name is refused, since a state function gets a store, and perhaps a repartition topic; an option
that only state functions have (``state=``, ``on_timer=``, ``timers=``, ``ttl=``) says that it is
one, whatever its names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, get_origin, is_typeddict

from streamlet.dsl.graph.inference import UNKNOWN, hint_of
from streamlet.dsl.graph.record_context import RecordContext
from streamlet.dsl.processors.keyed_state import State
from streamlet.dsl.processors.processor import ProcessorContext
from streamlet.dsl.processors.suppliers import parameters
from streamlet.errors import TopologyError

Role: TypeAlias = Literal["state", "context"]

_NAMES: dict[str, Role] = {"context": "context", "ctx": "context", "state": "state"}


def roles(
    call: str, function: Callable[..., Any], *, of_state: bool, first: str = "record"
) -> tuple[Role, ...]:
    """The role of each argument behind the first one.

    Args:
        call: the call, for messages.
        function: what it was given.
        of_state: whether other arguments of the call are for state functions only.
        first: what the function is called with first, for messages.

    Raises:
        TopologyError: a role is told by neither annotation nor name.
    """
    return tuple(_role(call, function, name, of_state, first) for name in parameters(function)[1:])


def _role(call: str, function: Callable[..., Any], name: str, of_state: bool, first: str) -> Role:
    hint = hint_of(function, name)
    kind = get_origin(hint) or hint
    if kind is ProcessorContext:
        return "context"
    if kind is State or is_typeddict(kind):
        return "state"
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return "state"
    known = _NAMES.get(name)
    if known is None and of_state:
        known = "state"
    if known is None or kind is RecordContext:
        shown = name if hint is UNKNOWN else f"{name}: {getattr(kind, '__name__', hint)}"
        raise TopologyError(
            f"{call} calls its function as ({first}), ({first}, state), ({first}, context) or "
            f"({first}, state, context), but it takes ({', '.join(parameters(function))}): "
            f"give {shown!r} the name 'state' for the dict of the key, or 'context' for the "
            "ProcessorContext, or annotate it with sl.State or sl.ProcessorContext"
        )
    return known
