"""Elastic, stateful stream processing on Apache Kafka.

    import streamlet as sl

    app = sl.App("words", bootstrap_servers="localhost:9092")
    lines = app.stream("lines", key=bytes, value=str)
    words = lines.flat_map_values(str.split).group_by(lambda _, word: word)
    words.count(store="counts").to_stream().to("counts")
    app.run()

What ``__init__.pyi`` imports is the public interface. It is loaded when it is first asked for, so
that parts of the package can be used without the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from streamlet.lazy_names import load_name, public_names


def __getattr__(name: str) -> Any:
    if name not in public_names(__name__) and not name.startswith("_"):
        sentence = import_module("streamlet.absent").elsewhere(name)
        if sentence is not None:
            raise AttributeError(sentence)
    found = globals()[name] = load_name(__name__, name)
    return found


def __dir__() -> list[str]:
    return [*public_names(__name__), *(name for name in globals() if name.startswith("__"))]
