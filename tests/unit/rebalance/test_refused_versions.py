"""Members of a version that cannot read records that wait for a commit are refused by name."""

from __future__ import annotations

import pytest

from streamlet.errors import RefusedError
from streamlet.rebalance import wire
from streamlet.rebalance.values import AssignmentError
from tests.unit.rebalance.test_protocol import ACTIVE, T00, Bench


@pytest.mark.parametrize("waits", [True, False])
def test_who_cannot_read_what_is_in_repartition_topics_is_refused(
    waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    leader, old = Bench(waits=waits), Bench(latest=wire.HELD_VERSION - 1)
    alone = leader.plan(a=leader.say())
    leader.protocol.decode(wire.encode_assignment(alone["a"]))
    answers = leader.plan(a=leader.say({T00: ACTIVE}), b=old.say())
    assert answers["a"].held is waits
    assert answers["b"].error == (AssignmentError.MOVED if waits else AssignmentError.NONE)
    assert ("refused: b: records in the repartition topics wait" in caplog.text) is waits
    if waits:
        assert answers["a"].active == {T00}
        data = wire.encode_assignment(answers["b"], wire.HELD_VERSION - 1)
        with pytest.raises(RefusedError, match=r"set repartition\.exact to false in all of them"):
            old.protocol.decode(data)


def test_an_earlier_version_may_join_before_records_wait() -> None:
    leader, old = Bench(waits=True), Bench(latest=wire.HELD_VERSION - 1)
    answers = leader.plan(a=leader.say(), b=old.say())
    assert (answers["a"].held, answers["b"].error) == (False, AssignmentError.NONE)
