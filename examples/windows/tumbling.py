"""Tumbling windows: the orders of each customer per hour.

    streamlet broker start
    streamlet topics create orders orders-per-hour --partitions 4
    streamlet run examples.windows.tumbling:app

Each record of ``orders`` has a customer as its key and an amount in cents as its value. The topic
``orders-per-hour`` has the newest number of orders of every customer and hour, keyed by both.
Orders that come up to five minutes late still count.
"""

from __future__ import annotations

import streamlet as sl

app = sl.App("orders-per-hour")

orders = app.stream("orders", key=str, value=int)
hourly = orders.group_by_key().windowed_by(sl.tumbling("1h", grace="5m"))
hourly.count(store="orders").to_stream().to("orders-per-hour")
