"""Mistakes that a type checker must find: the lines marked with an error, and no others."""

from __future__ import annotations

import streamlet as sl

app = sl.App("wrong")
words = app.stream("words", key=str, value=str)
counts = app.table("counts", key=str, value=int)

words.filter(lambda k, v: v.nothing)  # error
words.map_values(lambda v: v + 1)  # error
words.map_values(str.upper).to("out", value=int)  # error
words.map_values_async(str.upper)  # error
words.merge(app.stream("numbers", key=str, value=int))  # error
words.group_by_key().reduce(lambda one, other: len(other))  # error
words.group_by_key().aggregate(lambda: 0, lambda k, v, n: v)  # error
app.stream("numbers", key=int, value=str).join(counts, lambda v, n: n)  # error
words.join(words, lambda a, b: a)  # error
words.left_join(counts, lambda v, n: n + 1)  # error
words.left_join(words, lambda v, w: v + w, within=sl.join_windows("1s"))  # error
words.outer_join(words, lambda v, w: v)  # error
words.join(counts, lambda v, n: n + 1)
words.windowed_by(60)  # error
print(words.groupByKey)  # error
words.group_by_key().cogroup()  # error
counts.join(words, lambda a, b: a)  # error
counts.join(app.table("by", key=int, value=str), lambda a, b: a)  # error
counts.join(counts, lambda a, b: a, foreign_key=float)  # error
app.agent("words")  # error
sl.App("shut", uncaught_handler="skip")  # error
sl.App("shut", uncaught_handler=lambda error: None)  # error
sl.App("shut", uncaught_handler=lambda error: "replace_thread")
words.group_by_key().count(store=sl.Materialized("recent", ttl=1.5))  # error
