"""Topologies with ``topology.optimization`` in Spark's tasks: the results of native ones."""

from __future__ import annotations

import random

import pytest

import streamlet as sl
from streamlet.config import Settings
from streamlet.errors import ConfigError
from streamlet.spark.plan.plan import plan
from streamlet.spark.plan.refusals import check_settings
from streamlet.spark.state.run import Runner
from streamlet.testing import TopologyTestDriver
from streamlet.types import TaskId
from tests.unit.spark.test_stages import SMALL, KeptInMemory, raw_rows, taken, text

ALL = {"topology.optimization": "all"}

itself = sl.App("itself", config=ALL)
_stream = itself.stream("in", key=str, value=str)
_WITHIN = sl.join_windows("50ms", after="80ms", grace="30ms")
_stream.join(_stream, lambda a, b: f"{a}|{b}", within=_WITHIN, value=str).to("out")

merged = sl.App("merged", config=ALL)
_keyed = merged.stream("in", key=str, value=str).select_key(lambda k, v: v, key=str)
_keyed.filter(lambda k, v: v != "b").group_by_key().count(store="n").to_stream().to("counts")
_keyed.group_by_key().reduce(lambda one, other: other).to_stream().to("last")


def test_a_stream_is_joined_with_itself_as_in_native_tasks() -> None:
    laid_out = plan(f"{__name__}:itself", itself.topology(), {"in": 1})
    dice, now = random.Random(1), 0
    runners, kept = [Runner(laid_out, SMALL), Runner(laid_out, SMALL)], KeptInMemory()
    with TopologyTestDriver(itself) as driver:
        for batch in range(15):
            given = []
            for number in range(dice.randrange(1, 9)):
                now += dice.choice((0, 5, 30))
                given.append((dice.choice("ab"), f"{batch}-{number}", now))
                driver.pipe_input("in", *given[-1])
            native = [(one.key, one.value) for one in driver.read_output("out")]
            rows = raw_rows(laid_out, text("in", batch * 10, *given))
            pairs = taken(runners[batch % 3 == 0].run(TaskId(0, 0), rows, kept, batch))
            assert [((k or b"").decode(), (v or b"").decode()) for k, v in pairs] == native


def test_a_merged_topic_is_one_stage() -> None:
    laid_out = plan(f"{__name__}:merged", merged.topology(), {"in": 2})
    assert laid_out.mapped == {0}
    assert [len(stage.tasks) for stage in laid_out.stages] == [2]
    given = text("merged-n-repartition", 0, *((v, v, n) for n, v in enumerate("abab")))
    rows = raw_rows(laid_out, given)
    outputs = list(Runner(laid_out, SMALL).run(TaskId(1, 0), rows, KeptInMemory(), 0))
    found: dict[str, list[bytes | None]] = {"counts": [], "last": []}
    for some in outputs:
        for output in some:
            found[output.topic] += output.keys
    assert found == {"counts": [b"a", b"a"], "last": [b"a", b"b", b"a", b"b"]}


def test_a_setting_that_the_program_does_not_have_is_refused() -> None:
    """Workers make the topology of the program alone."""
    with pytest.raises(ConfigError, match=r"topology\.optimization .*App\(config=…\)"):
        check_settings(Settings.load(ALL), Settings.load())
    check_settings(Settings.load(ALL), Settings.load(ALL))
