"""Late records: the orders of each customer per hour, and a topic of those that came too late.

    streamlet broker start
    streamlet topics create orders orders-per-hour late-orders --partitions 4
    streamlet run examples.windows.late:app

``orders-per-hour`` gets one record for each customer and hour, when an order comes that is five
minutes younger than the hour. An order for an hour that is over by then changes nothing there: it
goes to ``late-orders`` as it is, with headers that say which hour it was for
(``streamlet.window.start``) and where it was read, so that a person can book it by hand.
"""

from __future__ import annotations

import streamlet as sl

app = sl.App("hourly-orders")

orders = app.stream("orders", key=str, value=int)
hours = orders.group_by_key().windowed_by(
    sl.tumbling("1h", grace="5m"), emit="final", late="late-orders"
)
counts = hours.count(store=sl.Materialized("orders", retention="1d"))
counts.to_stream().to("orders-per-hour")
