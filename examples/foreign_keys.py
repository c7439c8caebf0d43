"""A join of tables by a foreign key: each order with its customer as that is now.

    streamlet broker start
    streamlet topics create orders customers deliveries --partitions 4 -c cleanup.policy=compact
    streamlet run examples.foreign_keys:app

The key of ``orders`` is the order's number, that of ``customers`` the customer's name, which an
order bears. ``deliveries`` has where each order goes: it changes with the order, and with each
move of the customer for all the orders at once. An order without a known customer waits.
"""

from __future__ import annotations

import attrs

import streamlet as sl


@attrs.frozen
class Order:
    customer: str
    item: str


@attrs.frozen
class Customer:
    city: str


def delivery(order: Order, customer: Customer | None) -> str:
    place = "wait" if customer is None else customer.city
    return f"{order.item} for {order.customer}: {place}"


app = sl.App("deliveries")

orders = app.table("orders", key=int, value=Order, store="orders")
customers = app.table("customers", key=str, value=Customer, store="customers")
deliveries = orders.left_join(
    customers,
    delivery,
    foreign_key=lambda order: order.customer,
    store="deliveries",
    name="customers-of-orders",
)
deliveries.to_stream().to("deliveries")
