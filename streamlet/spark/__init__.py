"""streamlet on Spark: the same ``App`` as a Structured Streaming query.

    import streamlet as sl

    spark = sl.spark.session(master="local[2]")

Needs the extra ``spark``; this module can be imported without it. Names are loaded when they are
first used: commands that need a constant of this package, and Spark's Python processes, must not
load all of it. To add a name, import it in ``__init__.pyi``.
"""

from __future__ import annotations

from streamlet.lazy_names import load_name, public_names


def __getattr__(name: str) -> object:
    return load_name(__name__, name)


def __dir__() -> list[str]:
    return sorted(public_names(__name__))
