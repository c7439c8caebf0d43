"""Final results: the revenue of each shop per day, written once, when the day is over.

    streamlet broker start
    streamlet topics create sales revenue --partitions 4
    streamlet run examples.windows.final:app

A day is over when a sale comes that is ten minutes younger. Days are those of UTC. The store keeps
a week, so that no result is lost after a pause.
"""

from __future__ import annotations

import streamlet as sl

app = sl.App("daily-revenue")

sales = app.stream("sales", key=str, value=int)
days = sales.group_by_key().windowed_by(sl.tumbling("1d", grace="10m"), emit="final")
revenue = days.reduce(
    lambda total, amount: total + amount, store=sl.Materialized("revenue", retention="7d")
)
revenue.to_stream().to("revenue")
