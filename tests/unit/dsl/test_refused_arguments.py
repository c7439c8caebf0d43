"""Arguments of a wrong type are refused by the call that they are given to, by its name."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import attrs
import numpy
import pytest

import streamlet as sl
from streamlet.arguments import told_by_form
from streamlet.config import Settings
from streamlet.errors import ConfigError, ProcessingError, TopologyError
from streamlet.hosting.preparing import check_supported
from streamlet.testing import TopologyTestDriver

Call = Callable[[sl.App, Any], Any]
#: It has no truth, and is equal to nothing as a whole.
COLUMN: Any = numpy.array(["updates", "final"])


class Unshown:
    """An object that fails where it is to be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no representation")


def stream(app: sl.App) -> Any:
    return app.stream("in", key=str, value=str)


def table(app: sl.App) -> Any:
    return app.table("rows", key=str, value=str)


def grouped(app: sl.App) -> Any:
    return stream(app).group_by_key()


def cogrouped(app: sl.App) -> Any:
    return grouped(app).cogroup(lambda _k, _v, a: a)


#: The call, and what its message begins with.
CALLS: dict[str, tuple[Call, str]] = {
    "filter": (lambda app, bad: stream(app).filter(bad), r"filter\(\) expects a function"),
    "map_values_async": (
        lambda app, bad: stream(app).map_values_async(bad, value=str),
        r"map_values_async\(\) expects an async function",
    ),
    "process": (lambda app, bad: stream(app).process(bad), r"process\(\) expects a"),
    "non_deterministic": (lambda app, bad: sl.non_deterministic(bad), "expects a function"),
    "with_context": (lambda app, bad: sl.with_context(bad), "expects a function"),
    "windowed_by": (lambda app, bad: grouped(app).windowed_by(bad), r"windowed_by\(\) expects"),
    "windowed_by of cogrouped": (
        lambda app, bad: cogrouped(app).windowed_by(bad),
        r"windowed_by\(\) expects windows",
    ),
    "late": (
        lambda app, bad: grouped(app).windowed_by(sl.tumbling(1), late=bad),
        r"windowed_by\(late=\) expects a topic or a function",
    ),
    "merge": (lambda app, bad: stream(app).merge(bad), r"merge\(\) expects another stream"),
    "cogroup": (
        lambda app, bad: cogrouped(app).cogroup(bad, lambda _k, _v, a: a),
        r"cogroup\(\) expects a grouped stream",
    ),
    "stream": (lambda app, bad: app.stream(bad, key=str, value=str), r"stream\(\) expects"),
    "table": (
        lambda app, bad: app.table(bad, key=str, value=str),
        r"table\(topic=\) expects the name of a topic",
    ),
    "global_table": (
        lambda app, bad: app.global_table(bad, key=str, value=str),
        r"global_table\(topic=\) expects the name of",
    ),
    "store": (lambda app, bad: grouped(app).count(store=bad), r"store= expects a name or a Mat"),
    "store of a table": (
        lambda app, bad: table(app).filter(lambda _k, _v: True, store=bad),
        r"store= expects",
    ),
    "store name": (
        lambda app, bad: grouped(app).count(store=sl.Materialized(bad)),
        r"Materialized\(name=\) expects",
    ),
    "name": (
        lambda app, bad: stream(app).filter(lambda _k, _v: True, name=bad),
        r"filter\(name=\) expects text",
    ),
    "name of a group": (
        lambda app, bad: stream(app).group_by_key(name=bad),
        r"group_by_key\(name=\) expects",
    ),
    "name of a branch": (
        lambda app, bad: stream(app).split().branch(lambda _k, _v: True, name=bad),
        r"branch\(name=\) expects text",
    ),
    "chain": (
        lambda app, bad: stream(app).split().branch(lambda _k, _v: True, chain=bad),
        r"branch\(\) expects chain=",
    ),
    "stores": (
        lambda app, bad: stream(app).process(lambda _: None, stores=bad),
        r"process\(\), stores= expects",
    ),
    "kept on disk": (
        lambda app, bad: grouped(app).count(store=sl.Materialized(persistent=bad)),
        r"Materialized\(persistent=\) expects True or False",
    ),
    "partitions": (
        lambda app, bad: stream(app).repartition(partitions=bad),
        r"repartition\(partitions=\) expects",
    ),
    "origin": (
        lambda app, bad: stream(app).to("out", origin=bad),
        r"to\(origin=\) expects True or False",
    ),
    "feedback": (lambda app, bad: stream(app).to("out", feedback=bad), r"to\(feedback=\) expects"),
    "plain": (
        lambda app, bad: stream(app).repartition(plain=bad),
        r"repartition\(plain=\) expects",
    ),
    "schedules": (
        lambda app, bad: stream(app).process(lambda _: None, schedules=bad),
        r"process\(schedules=\) expects",
    ),
    "retain_duplicates": (
        lambda _app, bad: sl.window_store(
            "w", key=str, value=str, size="1m", retention="1h", retain_duplicates=bad
        ),
        r"window_store\(retain_duplicates=\) expects",
    ),
    "name of a split": (lambda app, bad: stream(app).split(name=bad), r"split\(name=\) expects"),
    "name of a repartition": (
        lambda app, bad: stream(app).repartition(name=bad),
        r"repartition\(name=\) expects",
    ),
    "label": (lambda app, bad: stream(app).print(bad), r"print\(label=\) expects"),
    "join": (lambda app, bad: stream(app).join(bad, lambda a, b: a), r"join\(\): a stream joins"),
    "join of tables": (lambda app, bad: table(app).join(bad, min), r"join\(\): a table joins"),
}
#: Where None, or a text, is an argument like any other.
TAKES_NONE = {"late", "store", "store of a table", "store name", "name", "name of a group"}
TAKES_NONE |= {"name of a branch", "chain", "partitions", "schedules", "name of a repartition"}
TAKES_NONE |= {"label"}
TAKES_TEXT = {"late", "stream", "table", "global_table", "store", "store of a table", "store name"}
TAKES_TEXT |= {"name", "name of a group", "name of a branch", "stores", "name of a split"}
TAKES_TEXT |= {"name of a repartition", "label"}


@pytest.mark.parametrize("call", CALLS)
def test_an_argument_of_a_wrong_type_is_refused_at_the_call(call: str) -> None:
    make, message = CALLS[call]
    bad: list[Any] = [object(), Unshown(), True if call == "partitions" else 5]
    bad += [] if call in TAKES_NONE else [None]
    bad += [] if call in TAKES_TEXT else ["5m"]
    for one in bad:
        with pytest.raises(TopologyError, match=message) as refused:
            make(sl.App("shop"), one)
        if "join" not in call:
            assert isinstance(refused.value, TypeError)


def test_each_public_call_is_told_by_its_form_and_types() -> None:
    """The door of a call is its decorator; objects that streamlet makes have none."""
    made = {"ChangeEvent", "ErrorContext", "FailedRecord", "LateRecord", "RecordMetadata"}
    made |= {"Cancellable", "Origin", "RecordBatch", "Serde", "StateQueryResult", "StoreBuilder"}
    made |= {"Timer", "VersionedRecord", "ValueAndTimestamp"}
    for name in sl.__dir__():
        one = getattr(sl, name)
        own = one.__module__.startswith("streamlet.") if hasattr(one, "__module__") else False
        if inspect.isfunction(one) and own:
            assert hasattr(one, "__wrapped__"), name
        if isinstance(one, type) and attrs.has(one) and name not in made:
            assert hasattr(one.__init__, "__wrapped__"), name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sl.col(5), r"^col\(name=\) expects text, got 5"),
        (lambda: sl.lit([]), "an expression cannot have"),
        (lambda: sl.count("a"), r"called as count\(\)"),
        (lambda: sl.sum_("price"), r"sum_\(\) expects an expression"),
        (lambda: sl.avro(), r"called as avro\(schema"),
        (lambda: sl.json(str, 5), r"called as json\(of"),
        (lambda: sl.Retry(tries=3), r"called as Retry\(attempts=5"),
        (lambda: sl.KeyQuery(), r"called as KeyQuery\(key\)"),
        (lambda: sl.KeyQuery(None), r"KeyQuery\(key=\) expects a key"),
        (lambda: sl.RangeQuery(descending=1), r"RangeQuery\(descending=\) expects True or False"),
        (lambda: sl.WindowKeyQuery("a", first="1m"), r"first=\) expects a whole number"),
        (lambda: sl.StateQueryRequest("s", "a"), r"query=\) expects a query such as KeyQuery"),
        (lambda: sl.StateQueryRequest("s", sl.KeyQuery(1), partitions="0"), "a list of whole num"),
        (lambda: sl.Position({("in", 0): 5}), r"expects a dict of offsets by TopicPartition"),
        (lambda: sl.App("a").run(timeout=math.nan), r"run\(timeout=\) expects a time in"),
        (lambda: sl.App("a").query("s"), r"query\(\) expects a StateQueryRequest"),
        (lambda: sl.App("a").set_standby_update_listener(print), "expects a StandbyUpdateListener"),
        (lambda: sl.Materialized(ttl="soon"), r"Materialized\(ttl=\) 'soon': expected"),
        (lambda: sl.Consumer(5, "g"), r"Consumer\(topics=\) expects names of topics"),
        (lambda: sl.RepeatFilter({"read": [5]}), r"expects what seen\(\) returned"),
        (lambda: stream(sl.App("a")).split().branch(min, name=""), "name= is an empty text"),
        (lambda: grouped(sl.App("a")).windowed_by(sl.tumbling(1), emit=COLUMN), r"emit=\) expects"),
        (lambda: stream(sl.App("a")).process(print, ttl=COLUMN), r"ttl=\) expects whole millis"),
        (lambda: stream(sl.App("a")).process(print, state=COLUMN), "is no type|no serde|state"),
        (lambda: sl.tumbling("5m", tz=5), r"'tz'; .* calendar\(.*called as tumbling\(size, \*, gr"),
        (lambda: sl.tumbling("5m", "1m"), r"^tumbling\(\) takes 1 .*called as tumbling\("),
        (lambda: sl.App("shop", bootstrap="b"), r"^App\(\) got .*did you mean bootstrap_servers="),
        (lambda: sl.App("a").stream("in", key_serde=1), r"^stream\(\) .*types are key= and value="),
        (
            lambda: sl.App("a").stream("in", value_deserializer="json"),
            r"^stream\(\) .*types are key= and value=",
        ),
        (
            lambda: sl.App("a", brokers="b:1"),
            r"^App\(\) .*brokers are bootstrap_servers=",
        ),
        (lambda: sl.App("a", group_id="g"), r"^App\(\) .*by the application's name, the first arg"),
        (
            lambda: sl.Consumer("in", "g", auto_offset_reset="earliest"),
            r"^Consumer\(\) .*others by config={'auto.offset.reset': ...}",
        ),
        (lambda: grouped(sl.App("a")).count("n"), r"called as count\(\*, store=None"),
        (lambda: grouped(sl.App("a")).count(store=""), "store= is an empty text"),
        (lambda: table(sl.App("a")).to_stream(key=int), "type of what a function gives"),
    ],
)
def test_a_call_that_cannot_be_is_told_what_the_call_takes(make: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        make()


def test_an_error_inside_of_a_call_stays_as_it_is() -> None:
    @told_by_form
    def failing() -> None:
        raise TypeError("of the user's")

    with pytest.raises(TypeError, match="of the user's") as raised:
        failing()
    assert not isinstance(raised.value, TopologyError)


def test_a_reset_that_is_none_is_refused() -> None:
    with pytest.raises(TopologyError, match="reset='newest' is neither"):
        sl.App("shop").stream("in", key=str, value=str, reset="newest")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("key", "value", "role"), [(str, int, "value"), (int, str, "key")], ids=["value", "key"]
)
def test_a_sink_names_its_topic_and_what_does_not_fit(key: Any, value: Any, role: str) -> None:
    app = sl.App("shop", on_error="fail")
    made = stream(app).map(lambda _k, _v: ("a", "b"), key=str, value=str)
    made.to("out", key=key, value=value)
    with (
        TopologyTestDriver(app) as driver,
        pytest.raises(ProcessingError, match=f"topic out, {role}: int: expected int, got str"),
    ):
        driver.pipe_input("in", "k", "v")


def test_standbys_are_spread_by_tags_that_an_instance_has() -> None:
    rack: dict[str, Any] = {"rack.aware.assignment.tags": "zone,rack"}
    with pytest.raises(ConfigError, match=r"= rack: the instance has no such tag"):
        check_supported(Settings.load({**rack, "instance.tags": "zone=a"}))
    check_supported(Settings.load({**rack, "instance.tags": "zone=a,rack=b"}))


#: Classes whose objects only streamlet makes, each with what a message says makes them.
MADE_INSIDE: dict[Any, str] = {
    sl.KStream: r"App\.stream\(\)",
    sl.KTable: r"App\.table\(\)",
    sl.GlobalKTable: r"App\.global_table\(\)",
    sl.KGroupedStream: r"KStream\.group_by\(\)",
    sl.KGroupedTable: r"KTable\.group_by\(\)",
    sl.WindowedKStream: "windowed_by",
    sl.CogroupedKStream: "cogroup",
    sl.WindowedCogroupedKStream: "windowed_by",
    sl.BranchedKStream: "split",
    sl.ProcessorContext: r"process\(\)",
    sl.StoreBuilder: r"key_value_store\(\)",
    sl.KeyValueStore: "context.store",
    sl.TimestampedStore: "context.store",
    sl.VersionedKeyValueStore: "context.store",
    sl.WindowStore: "context.store",
    sl.SessionStore: "context.store",
    sl.LruStore: "context.store",
}


@pytest.mark.parametrize("made", MADE_INSIDE)
@pytest.mark.parametrize("arguments", [(), ("x", str, int), (None,), ((),), ({},)])
def test_what_only_streamlet_makes_says_what_makes_it(
    made: Any, arguments: tuple[Any, ...]
) -> None:
    message = rf"^{made.__name__} is not made by hand: .*{MADE_INSIDE[made]}"
    with pytest.raises(TypeError, match=message):
        made(*arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda app: app.stream(b"in", key=str, value=str), "a pattern, got b'in'"),
        (lambda app: app.store(5), "or what it was made with, got 5"),
        (lambda app: app.set_state_listener(lambda: 1), r"called as \(new, old\), but .* takes"),
        (lambda _: sl.tumbling(numpy.int64(5_000)), r"got .*5000.*call its \.item\(\)"),  # type: ignore[arg-type]
    ],
)
def test_a_refused_argument_is_shown_as_it_was_given(
    make: Callable[[sl.App], Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        make(sl.App("shown"))


@pytest.mark.parametrize(
    "handler", ["deserialization_handler", "processing_handler", "production_handler"]
)
def test_a_handler_of_another_form_is_refused_before_it_is_needed(handler: str) -> None:
    expected = rf"{handler}: it is called as \(context, record, error\), but .* takes \(error\)"
    with pytest.raises(ConfigError, match=expected):
        sl.App("handled", **{handler: lambda error: "skip"})  # type: ignore[arg-type]
    sl.App("handled", **{handler: lambda *all_of_it: "skip"})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"uncaught_handler: it is called as \(error\), but"):
        sl.App("handled", uncaught_handler=lambda: "shutdown_client")  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: sl.App("a", processing_guarantee="exactly_once"), "App(config={'processing.guar"),
        (lambda: sl.App("a", num_stream_threads=2), "`streamlet run --processes N`"),
        (lambda: sl.App("a").start(bootstrap_servers="b:1"), "given to an App or a Consumer"),
        (lambda: TopologyTestDriver(sl.App("a"), config={}), "settings are config={'key': value}"),
    ],
)
def test_settings_given_elsewhere_are_sent_to_the_app(call: Any, said: str) -> None:
    with pytest.raises(TypeError, match=f"keyword argument '.*'; .*{re.escape(said)}"):
        call()
