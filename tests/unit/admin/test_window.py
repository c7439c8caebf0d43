"""A window opens the clients that a look needs, each once, and closes what it opened."""

from __future__ import annotations

from typing import Any, cast

import attrs

from streamlet.admin.window import ApplicationInfo, GroupWindow
from streamlet.control.view import ControlView
from tests.windows import window


@attrs.define(eq=False)
class Client:
    name: str
    log: list[str]

    def topics(self) -> dict[str, object]:
        return {}

    def latest(self) -> ControlView:
        return ControlView()

    def close(self) -> None:
        self.log.append(f"close {self.name}")


def opened(log: list[str]) -> GroupWindow:
    def opening(name: str) -> Any:
        log.append(f"open {name}")
        return Client(name, log)

    transport = cast(Any, Client("transport", log))
    ways = lambda: opening("admin"), lambda: opening("control")
    return GroupWindow(ApplicationInfo("flights"), transport, *ways)


def test_a_client_is_opened_once_when_it_is_needed_and_closed_with_the_window() -> None:
    log: list[str] = []
    with opened(log) as one:
        assert log == []
        assert one.committed() == one.committed() == {}
        assert log == ["open admin"]
        one.reports()
    assert log == ["open admin", "open control", "close transport", "close admin", "close control"]


def test_a_client_that_no_look_needed_is_never_opened() -> None:
    log: list[str] = []
    with opened(log):
        pass
    assert log == ["close transport"]


def test_without_a_control_topic_nothing_is_reported() -> None:
    log: list[str] = []
    transport, admin = Client("transport", log), cast(Any, Client("admin", log))
    assert window(transport, admin, "flights").reports() == ControlView()
