"""Word count whose workers wait at a gate, so that a test may meet a batch under way."""

from __future__ import annotations

import os
import time
from pathlib import Path

import examples.wordcount
import streamlet as sl

#: A file in which the test lets all pass; one beside it says that somebody waits.
GATE = Path(os.environ.get("GATE", "/nonexistent/gate"))


def words(line: str) -> list[str]:
    while not GATE.exists():
        GATE.with_suffix(".waiting").touch()
        time.sleep(0.05)
    return examples.wordcount.words(line)


app = sl.App("gated")
(
    app.stream("lines", key=bytes, value=str)
    .flat_map_values(words)
    .group_by(lambda _, word: word, key=str)
    .count(store="counts")
    .to_stream()
    .to("word-counts")
)
