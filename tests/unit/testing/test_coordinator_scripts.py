"""The scripts of the coordinator contract, on the fake coordinator alone.

``tests/integration/test_coordinator_contract.py`` plays the same files on a real broker.
"""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest

from streamlet.coordinator.events import Connection
from streamlet.coordinator.messages import Answer, Request
from streamlet.testing.coordinator import Answers, FakeCoordinator
from streamlet.testing.coordinator_desk import BrokerRules
from tests.group_script import GroupScript, ScriptFailed

SCRIPTS = sorted((Path(__file__).parent / "coordinator_scripts").glob("*.txt"))


class FakeWire:
    """Carries a script's requests to the fake coordinator; time passes only when told to."""

    limit_ms = parked_ms = 0

    def __init__(self, rules: BrokerRules | None = None) -> None:
        self.coordinator = FakeCoordinator(rules, topics={"t": 4})
        self.now_ms = 0
        self._waiting: dict[int, Future[Answer]] = {}

    def send(self, client: str, request: Request, connection: Connection) -> Future[Answer]:
        number = len(self._waiting)
        future = self._waiting[number] = Future[Answer]()
        self._deliver(self.coordinator.handle(number, request, self.now_ms, client))
        return future

    def hang_up(self, client: str) -> None:
        """The coordinator does not see it: sockets of parked requests are not read."""

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self._deliver(self.coordinator.tick(self.now_ms))

    def restart(self) -> None:
        self.coordinator.restart(self.now_ms)

    def _deliver(self, answers: Answers) -> None:
        for request_id, answer in answers:
            assert isinstance(request_id, int)
            self._waiting[request_id].set_result(answer)  # raises if it was answered before


#: The settings of the broker that scripts named limited_… are played on.
LIMITED = BrokerRules(min_session_timeout_ms=500, max_group_size=2)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_the_fake_coordinator_answers_as_the_script_says(path: Path) -> None:
    rules = LIMITED if path.stem.startswith("limited") else None

    answers = GroupScript(FakeWire(rules), "g").play(path.read_text())

    assert answers


def test_a_script_that_expects_something_else_fails_with_the_line() -> None:
    with pytest.raises(ScriptFailed, match="line 2: A heartbeat -> ok\n  but came: UNKNOWN_MEMBER"):
        GroupScript(FakeWire(), "g").play("\nA heartbeat -> ok")
