"""A made-up name that moved would leave its state behind; that is refused at the start."""

from __future__ import annotations

import pytest

from streamlet.app import App
from streamlet.errors import TopologyError
from streamlet.topology.internal_topics import internal_topics
from streamlet.topology.moved import check_moved


def counting(*, filtered: bool = False, store: str | None = None, name: str = "app") -> App:
    app = App(name)
    stream = app.stream("in", key=str, value=str)
    if filtered:
        stream = stream.filter(lambda k, v: True)
    stream.group_by(lambda k, v: v, key=str).count(store=store)
    return app


def topics_of(app: App) -> set[str]:
    return {"in", *(topic.name for topic in internal_topics(app.topology(), {"in": 1}))}


def check(app: App, existing: set[str]) -> None:
    check_moved(app.topology(), app.name, existing)


def test_an_unnamed_store_that_moved_is_refused_with_both_names() -> None:
    with pytest.raises(TopologyError) as refused:
        check(counting(filtered=True), topics_of(counting()))
    text = str(refused.value)
    for number in (2, 3):
        for kind in ("changelog", "repartition"):
            assert f"app-KSTREAM-AGGREGATE-STATE-STORE-{number:010d}-{kind}" in text


def test_a_named_store_may_move() -> None:
    check(counting(filtered=True, store="n"), topics_of(counting(store="n")))


def test_an_unnamed_store_that_stayed_is_fine() -> None:
    check(counting(), topics_of(counting()))


def test_the_first_start_is_fine() -> None:
    check(counting(), {"in"})


def test_topics_of_an_application_with_a_longer_name_are_not_ours() -> None:
    check(counting(filtered=True), topics_of(counting(name="app-two")))


def test_a_leftover_beside_what_is_needed_is_fine() -> None:
    both = topics_of(counting()) | topics_of(counting(filtered=True))
    check(counting(filtered=True), both)
