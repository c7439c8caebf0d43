"""``ensure.explicit.internal.resource.naming``: made-up names are refused, all at once."""

from __future__ import annotations

import pytest

import streamlet as sl
from streamlet.errors import TopologyError

KEY = "ensure.explicit.internal.resource.naming"
NAMING = {KEY: True}


def unnamed(app: sl.App) -> None:
    words = app.stream("lines", key=str, value=str).select_key(lambda key, value: value)
    words.group_by_key().count().to_stream().to("counts")


def test_stores_and_repartition_topics_without_names_are_refused() -> None:
    app = sl.App("shop", config=NAMING)
    unnamed(app)
    with pytest.raises(TopologyError) as caught:
        app.topology()
    stores, topics = str(caught.value).split("names were made up of ")[1].split("; ")
    assert stores.startswith("stores (store=): KSTREAM-AGGREGATE-STATE-STORE-")
    assert topics.startswith("repartition topics (name=): shop-KSTREAM-AGGREGATE-STATE-STORE-")


def test_settings_of_a_run_decide() -> None:
    app = sl.App("shop")
    unnamed(app)
    assert app.topology().repartition_topics
    with pytest.raises(TopologyError, match="names were made up"):
        app.topology(app.load_settings(overrides=[f"{KEY}=true"]))


def test_given_names_are_enough() -> None:
    app = sl.App("shop", config=NAMING)
    words = app.stream("lines", key=str, value=str).select_key(lambda key, value: value)
    words.group_by_key(name="words").count(store="counts").to_stream().to("counts")
    prices = app.table("prices", key=str, value=int, store="prices")
    prices.filter(lambda key, price: price > 3, store="high").to_stream().to("high")
    assert app.topology().repartition_topics == ("shop-words-repartition",)
