"""Word count in a folder that only the driver has on its path."""

from __future__ import annotations

from baskets import words

import streamlet as sl

app = sl.App("shop")
(
    app.stream("lines", key=bytes, value=str)
    .flat_map_values(words)
    .group_by(lambda _, word: word, key=str)
    .count(store="counts")
    .to_stream()
    .to("word-counts")
)
