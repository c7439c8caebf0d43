"""The application ``waiting``: what people write first, and what a replay would write otherwise.

All parts count the records of one input. A stream and its table meet before each repartition, so
that records that are read again may meet in another order. What its stores must hold is told by the
input alone; ``scattered`` by the store ``sent``, in which its writer notes how often it wrote.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence

from streamlet import (
    App,
    KStream,
    KTable,
    ProcessorContext,
    Record,
    key_value_store,
    non_deterministic,
    tumbling,
)

#: Rows of the table that the stream meets, and of the one that does not change.
KEYS, DIGITS = 50, 10
#: One order of so many numbers, since each is a row for good.
ORDERS = 5
#: How many songs the charts of a genre have: as many as it has keys.
CHARTS = KEYS // DIGITS


#: What the application has, each with stores of its own; ``bench chaos`` chooses among them.
PARTS = ("shop", "charts", "joins", "foreign-key", "calls", "random-keys")


def waiting(name: str, parts: Sequence[str] = PARTS) -> App:
    """These parts, on the same input."""
    app = App(name)
    events = app.stream(f"{name}-in", key=str, value=int)
    rows = app.table(f"{name}-rows", key=str, value=int, store="rows")
    digits = app.table(f"{name}-digits", key=str, value=int, store="digits")
    met = events.join(rows, lambda number, row: number, value=int)
    met.to(f"{name}-passed")
    add: dict[str, Callable[[], None]] = {
        "shop": lambda: shop(met),
        "charts": lambda: music(met, f"{name}-genres"),
        "joins": lambda: joined_twice(met, digits),
        "foreign-key": lambda: sold(met, digits),
        "calls": lambda: answered(met, f"{name}-answers"),
        "random-keys": lambda: scattered(met),
    }
    for part in parts:
        add[part]()
    return app


def shop(met: KStream[str, int]) -> None:
    """A stream that met its table, regrouped and added up."""
    met.group_by(lambda key, number: key[-1], key=str, value=int).count(store="shop")


def music(met: KStream[str, int], topic: str) -> None:
    """KafkaMusic: plays of each song, and the five most played of each genre.

    A table is regrouped once more. The plays of each genre's five are put out with each play.
    """
    plays = met.group_by(lambda key, number: f"song {key}", key=str, value=int)
    songs = plays.count(store="plays")
    genres = songs.group_by(lambda song, count: (song[-1], {song: count}), key=str, value=dict)
    charts = genres.aggregate(dict, _play, _leave, value=dict, store="charts")
    charts.to_stream().map_values(lambda best: sum(best.values()), value=int).to(topic)


def _play(genre: str, song: dict[str, int], charts: dict[str, int]) -> dict[str, int]:
    best = sorted((charts | song).items(), key=lambda one: (-one[1], one[0]))
    return dict(best[:CHARTS])


def _leave(genre: str, song: dict[str, int], charts: dict[str, int]) -> dict[str, int]:
    return {one: count for one, count in charts.items() if one not in song}


def joined_twice(met: KStream[str, int], digits: KTable[str, int]) -> None:
    """Two joins in a row, and a regrouping behind each."""
    by_digit = met.select_key(lambda key, number: f"k{key[-1]}", key=str)
    again = by_digit.repartition(name="by-digit").join(
        digits, lambda number, row: number, value=int
    )
    again.group_by(lambda key, number: key[1:], key=str, value=int).count(store="twice")


def sold(met: KStream[str, int], digits: KTable[str, int]) -> None:
    """Orders that refer to a row by a foreign key, counted by window."""
    orders = met.filter(lambda key, number: number % ORDERS == 0)
    table = orders.select_key(lambda key, number: f"{key} {number}", key=str).to_table(
        store="orders"
    )
    priced = table.join(
        digits,
        lambda number, row: number,
        foreign_key=lambda number: f"k{number % DIGITS}",
        value=int,
        name="priced",
    )
    by_digit = priced.to_stream().group_by(lambda key, number: str(number % 10), key=str, value=int)
    by_digit.windowed_by(tumbling("1m", grace="1d")).count(store="sold")


def answered(met: KStream[str, int], topic: str) -> None:
    """Calls of a service that is now quick and now slow; their counts are put out."""
    called = met.repartition(name="calls").map_values_async(_answer, value=int)
    counts = called.group_by(lambda key, number: key[-1], key=str, value=int)
    counts.count(store="answered").to_stream().to(topic)


async def _answer(number: int) -> int:
    await asyncio.sleep(random.choice((0, 0, 0.002, 0.02)))
    return number


def scattered(met: KStream[str, int]) -> None:
    """None, one or several records with random keys for each, and how many they were."""
    sent = key_value_store("sent", key=str, value=int)
    copies = met.process(_scatter, stores=[sent], key=str, value=int)
    copies.group_by(lambda key, number: key, key=str, value=int).count(store="scattered")


@non_deterministic
def _scatter(
    record: Record[str, int], context: ProcessorContext[str, int]
) -> Iterator[tuple[str, int]]:
    sent, count = context.store("sent"), random.choice((0, 1, 1, 3))
    sent.put(record.key, (sent.get(record.key) or 0) + count)
    for _ in range(count):
        yield str(random.randrange(100)), record.value
