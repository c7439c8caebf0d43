"""Word count, the smallest application with state.

    streamlet broker start
    streamlet topics create lines word-counts --partitions 4
    streamlet run examples.wordcount:app

Each record of the topic ``lines`` is a line of text. The topic ``word-counts`` has the newest
count of every word, keyed by the word.
"""

from __future__ import annotations

import re

import streamlet as sl


def words(line: str) -> list[str]:
    return re.findall(r"\w+", line.lower())


app = sl.App("wordcount")

counts = (
    app.stream("lines", key=bytes, value=str)
    .flat_map_values(words)
    .group_by(lambda _, word: word, key=str)
    .count(store="counts")
)
counts.to_stream().to("word-counts")
