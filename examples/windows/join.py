"""A join of two streams: each order with its payment, and the orders without one.

    streamlet broker start
    streamlet topics create orders payments paid unpaid --partitions 4
    streamlet run examples.windows.join:app

The key of both topics is the order's number. A payment may come up to ten minutes behind its order,
by the times of the records, whichever is read first. ``paid`` gets the amount that is still due.
``unpaid`` gets an order that no payment came for, when a younger record shows that the ten minutes
are over, and another one in which payments may be late.
"""

from __future__ import annotations

import streamlet as sl

app = sl.App("payments")

orders = app.stream("orders", key=str, value=int)
payments = app.stream("payments", key=str, value=int)


def due(order: int, payment: int | None) -> tuple[int, int | None]:
    return order, payment


met = orders.left_join(
    payments,
    due,
    within=sl.join_windows(before=0, after="10m", grace="1m"),
    store="orders-and-payments",
)
branches = met.split().branch(lambda key, one: one[1] is None, name="unpaid").default_branch()
branches["unpaid"].map_values(lambda one: one[0], value=int).to("unpaid")
branches["0"].map_values(lambda one: one[0] - one[1], value=int).to("paid")
