"""What the topologies of the oracle share: small functions of values, inputs and outputs.

The names and meanings are those of the Java definitions that were recorded.
"""

from __future__ import annotations

from typing import Any

import streamlet as sl


def s(value: object) -> str:
    """Text of a value; null is ``-``."""
    return "-" if value is None else str(value)


def first(value: str | None) -> str | None:
    """First character, or None of None."""
    return None if value is None else value[0]


def starts(value: str | None, prefix: str) -> bool:
    return value is not None and value.startswith(prefix)


def pair(left: object, right: object) -> str:
    return f"{s(left)}|{s(right)}"


def tail(value: str) -> str:
    """The last 8 characters."""
    return value[-8:]


def add(aggregate: str, value: object) -> str:
    return f"{aggregate}+{text(value)}"


def sub(aggregate: str, value: object) -> str:
    return f"{aggregate}-{text(value)}"


def text(value: object) -> str:
    """Text of a value where Java joins strings: null is ``null``."""
    return "null" if value is None else str(value)


def stream(app: sl.App, topic: str = "in") -> sl.KStream[str, str]:
    return app.stream(topic, key=str, value=str)


def longs(app: sl.App, topic: str = "in") -> sl.KStream[str, int]:
    return app.stream(topic, key=str, value=int)


def grouped(app: sl.App, topic: str = "in") -> sl.KGroupedStream[str, str]:
    return stream(app, topic).group_by_key()


def table(app: sl.App, topic: str = "in") -> sl.KTable[str, str]:
    """A table whose store is named after the topic."""
    return app.table(topic, key=str, value=str, store=f"{topic}-store")


def out(result: sl.KStream[Any, Any] | sl.KTable[Any, Any], topic: str = "out") -> None:
    stream = result.to_stream() if isinstance(result, sl.KTable) else result
    stream.to(topic, name=topic)
