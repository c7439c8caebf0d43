"""Each trade with the newest quote that is not after it, though quotes may come late.

    streamlet broker start
    streamlet topics create trades quotes priced --partitions 4
    streamlet run examples.as_of:app

The key of both topics is the name of what is traded. The quotes become a table that knows what each
row was within the last ten minutes; a trade meets the row as of its own timestamp. It waits until
another trade is five seconds younger, so that a quote may be that late.
"""

from __future__ import annotations

import streamlet as sl

app = sl.App("trades")

trades = app.stream("trades", key=str, value=int)
quotes = app.stream("quotes", key=str, value=float)

newest = quotes.to_table(store=sl.Materialized("newest-quotes", history="10m"))


def price(count: int, quote: float) -> float:
    return count * quote


trades.join(newest, price, grace="5s", store="waiting-trades").to("priced")
