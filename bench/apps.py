"""The applications that are measured, written as a user would write them."""

from __future__ import annotations

from collections.abc import Mapping

import streamlet as sl


def wordcount(name: str, source: str, output: str, config: Mapping[str, object]) -> sl.App:
    """The number of records per word, every update written."""
    app = sl.App(name, config=config)
    counts = app.stream(source, key=str, value=dict).group_by_key().count(store="counts")
    updates = counts.to_stream().map_values(lambda word, count: {"word": word, "count": count})
    updates.to(output)
    return app


def passthrough(name: str, source: str, output: str, config: Mapping[str, object]) -> sl.App:
    """A copy of the topic, byte for byte."""
    app = sl.App(name, config=config)
    app.stream(source, key=bytes, value=bytes).to(output)
    return app
