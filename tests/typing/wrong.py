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
words.map_batches(lambda batch: len(batch))  # error
words.map_batches(lambda batch: [key + 1 for key in batch.keys])  # error
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


class NoProcessor:
    pass


class OtherProcessor:
    def process(self, record: sl.Record[str, bytes]) -> None:
        pass


class Made(sl.Processor[str, str, str, str]):
    def process(self, record: sl.Record[str, str]) -> None:
        pass


def three(record: sl.Record[str, str], one: int, two: int) -> None:
    pass


def four(
    record: sl.Record[str, str],
    state: sl.State[str],
    context: sl.ProcessorContext[str, str],
    more: int,
) -> None:
    pass


def of_other_records(record: sl.Record[str, int]) -> tuple[str, str]:
    return record.key, ""


def with_number(record: sl.Record[str, str], state: int) -> tuple[str, str]:
    return record.key, ""


def with_record_context(record: sl.Record[str, str], ctx: sl.RecordContext) -> tuple[str, str]:
    return record.key, ctx.topic


def twice(record: sl.Record[str, str], one: sl.State[str], two: sl.State[str]) -> tuple[str, str]:
    return record.key, ""


def number(record: sl.Record[str, str]) -> int:
    return 1


def with_context(record: sl.Record[str, str], ctx: sl.ProcessorContext[str, str]) -> None:
    pass


def with_state(record: sl.Record[str, str], state: sl.State[str]) -> str:
    return state["a"] or ""


def late(timer: sl.Timer[int], state: sl.State[str]) -> None:
    pass


words.process(NoProcessor, key=str, value=str)  # error
words.process(OtherProcessor, key=str, value=str)  # error
words.process(Made(), key=str, value=str)  # error
words.process("Made", key=str, value=str)  # error
words.process(three, key=str, value=str)  # error
words.process(four, key=str, value=str)  # error
words.process(of_other_records)  # error
words.process(with_number)  # error
words.process(with_record_context)  # error
words.process(twice)  # error
words.process(number)  # error
words.process(with_context, key=str, value=str, ttl="1h")  # error
words.process(with_context, key=int, value=str)  # error
words.process(with_state)  # error
words.process_values(with_state, on_timer=late)  # error
words.process_values(NoProcessor, value=str)  # error
words.process_values(Made(), value=str)  # error
words.process_values(three, value=str)  # error
words.process_values(of_other_records, value=str)  # error
words.process_values(with_number, value=str)  # error
words.process_values(with_record_context, value=str)  # error
words.process_values(with_state)
words.process_values(number, value=int)
words.process_values(with_context, value=str, ttl="1h")  # error
words.process_values(four, value=str)  # error
words.process_values(twice, value=str)  # error
words.process_values(with_context, value=str)


def stores(context: sl.ProcessorContext[str, int]) -> None:
    context.store("n", sl.KeyValueStore[str, int]).put("a", "1")  # error
    context.store("n", sl.WindowStore[str, int]).get_or_else("a")  # error
    context.store(sl.key_value_store("n", key=str, value=int)).get(1)  # error
