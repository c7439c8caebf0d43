"""Finds what failed in a query, by types of Java's exceptions and notes of Python's errors.

What they say is for people only: users' text may stand in it, see ``error_notes``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from streamlet import errors
from streamlet.errors import SparkFailedError
from streamlet.spark.cluster.executors import reason
from streamlet.spark.error_notes import noted

if TYPE_CHECKING:
    from pyspark.errors import StreamingQueryException

#: Our own errors that may pass without anyone's doing.
_PASSING = (
    errors.BrokerError,
    errors.UnreachableError,
    errors.UnreachableRegistryError,
    errors.DeliveryError,
    errors.UndeliveredError,
)
#: What Spark calls an error that Python raised, and how its conditions for others begin.
_PYTHON_EXCEPTION, _PYTHON = "org.apache.spark.api.python.PythonException", "PYTHON_"
_NO_PROGRAM = "java.io.IOException"


@attrs.frozen
class Link:
    """One exception of a chain of causes, as Java has it."""

    #: Full name of its class.
    kind: str
    text: str
    #: Spark's name for what happened; None: it has none.
    condition: str | None = None
    parameters: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def of_python(self) -> bool:
        """True if it is an error that Python raised, with its traceback."""
        return self.kind == _PYTHON_EXCEPTION or (self.condition or "").startswith(_PYTHON)


def failure_of(error: StreamingQueryException) -> SparkFailedError:
    """The failure of a query, from what awaiting its end raised."""
    return failure(links_of(error._origin))  # type: ignore[attr-defined]


def links_of(origin: Any) -> list[Link]:
    """An exception of Java's with its causes, the outermost first."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    throwable = jvm.java.lang.Class.forName("org.apache.spark.SparkThrowable")
    found = []
    while origin is not None:
        kind = origin.getClass()
        text = origin.getMessage() or ""
        if throwable.isAssignableFrom(kind):
            parameters = dict(origin.getMessageParameters())
            found.append(Link(kind.getName(), text, origin.getCondition(), parameters))
        else:
            found.append(Link(kind.getName(), text))
        origin = origin.getCause()
    return found


def failure(links: Sequence[Link]) -> SparkFailedError:
    """The failure that a chain of exceptions tells of.

    An executor that came after the start may have no Python that fits.
    """
    python = [one for one in links if one.of_python]
    texts = [text for one in python for text in (one.text, *one.parameters.values())]
    note, unfit = noted("\n".join(texts)), None
    if note is None:
        traces = [*python, *(one for one in links if one.kind == _NO_PROGRAM)]
        unfit = next(filter(None, (reason(one.text) for one in traces)), None)
    by_chance, code = not python and unfit is None, 1
    if unfit is not None:
        text = f"an executor does not fit: {unfit}"
    elif note is not None and note[0] is not None:
        named = getattr(errors, note[0])
        kind = named if issubclass(named, errors.StreamletError) else errors.StreamletError
        text, by_chance, code = note[1], kind in _PASSING, kind.exit_code
    else:
        text = _first_line(links)
    failed = f"the Spark query failed: {text}"
    return SparkFailedError(failed, by_chance=by_chance, exit_code=1 if by_chance else code)


def _first_line(links: Sequence[Link]) -> str:
    """Spark's first line, with the class of the innermost cause where that has no message."""
    lines = links[0].text.strip().splitlines() or [links[0].kind]
    return lines[0] if links[-1].text else f"{lines[0]}: {links[-1].kind}"
