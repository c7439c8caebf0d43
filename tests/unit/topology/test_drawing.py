"""Topologies as pictures in notebooks."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import streamlet as sl
from streamlet.errors import TopologyError
from streamlet.topology import drawing

SVG = "{http://www.w3.org/2000/svg}"


def shop() -> tuple[sl.App, sl.KStream[str, str], sl.KTable[str, int]]:
    app = sl.App("shop")
    orders = app.stream("orders", key=str, value=str)
    counts = orders.group_by_key().count(store="counts")
    counts.to_stream().to("totals")
    return app, orders, counts


def titles(picture: str) -> list[str]:
    """What the boxes hold, as the mouse shows it."""
    return [
        one.text or "" for one in ElementTree.fromstring(picture).iterfind(f"{SVG}g/{SVG}title")
    ]


def test_topics_operators_and_stores_are_drawn() -> None:
    app, _, _ = shop()
    found = titles(app._repr_html_())
    assert found == [
        "orders",
        "KSTREAM-AGGREGATE-0000000001: counts",
        "KTABLE-TOSTREAM-0000000002",
        "totals",
    ]


def test_a_repartition_topic_joins_two_subtopologies_in_one_picture() -> None:
    app = sl.App("words")
    lines = app.stream("lines", key=str, value=str)
    lines.group_by(lambda _, word: word, key=str).count(store="n")
    assert titles(app._repr_html_()).count("words-n-repartition") == 1


def test_all_kinds_of_sources_and_sinks_are_drawn() -> None:
    app = sl.App("shop")
    many = app.stream(re.compile("in-.*"), key=str, value=str)
    rates = app.global_table("rates", key=str, value=str, store="rates-store")
    joined = many.join(rates, lambda one, rate: rate, on=lambda key, one: key, value=str)
    joined.to(lambda key, value: "out")
    found = titles(app._repr_html_())
    assert {"topics in-.*", "rates", "global table: rates-store", "a topic for each record"} <= {
        *found
    }


def test_a_stream_and_a_table_stand_out_in_the_picture() -> None:
    _, orders, counts = shop()
    for one, title in ((orders, "orders"), (counts, "KSTREAM-AGGREGATE-0000000001: counts")):
        picture = ElementTree.fromstring(one._repr_html_())
        wide = [
            group.findtext(f"{SVG}title")
            for group in picture.iterfind(f"{SVG}g")
            if (rect := group.find(f"{SVG}rect")) is not None and rect.get("stroke-width") == "2.5"
        ]
        assert wide == [title]


def test_more_can_be_added_after_a_look() -> None:
    app, orders, _ = shop()
    before = app.describe()
    app._repr_html_()
    orders.to("copies")
    assert "copies" not in before
    assert "copies" in app.describe()
    assert app.topology() is app.topology()
    with pytest.raises(TopologyError, match="comes too late"):
        orders.to("more")


def test_what_cannot_be_drawn_is_said() -> None:
    said = "shop reads no topic: call stream() or table()"
    assert sl.App("shop")._repr_html_() == f"<pre>{said}</pre>"
    with pytest.raises(TopologyError, match="reads no topic"):
        sl.App("shop").describe()


def test_names_are_text_and_many_boxes_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    app = sl.App("shop")
    app.stream(re.compile("<b>|&amp;"), key=str, value=str).to("out")
    assert "topics <b>|&amp;" in titles(app._repr_html_())
    monkeypatch.setattr(drawing, "MOST_BOXES", 1)
    assert app._repr_html_() == "<pre>shop: 2 boxes, too many to draw</pre>"
