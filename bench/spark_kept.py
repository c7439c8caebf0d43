"""Tables of values of a kilobyte, one for each size of ``spark-state``, for Spark's workers."""

from __future__ import annotations

import streamlet as sl
from bench.spark_topics import RUN


def topic(name: str) -> str:
    """The topic of a table."""
    return f"bench-spark-{name}-{RUN}"


def _newest(name: str) -> sl.App:
    app = sl.App(f"bench-spark-{name}")
    values = app.stream(topic(name), key=bytes, value=bytes).group_by_key()
    values.reduce(lambda kept, new: new, store="newest")
    return app


small, middle, large = map(_newest, ("small", "middle", "large"))
