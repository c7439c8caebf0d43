"""The way of ``streamlet ui`` to instances that serve queries."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from streamlet.state.query_errors import InvalidStateStoreError, StateStoreMigratedError
from streamlet.tools import ui


@attrs.define
class _Client:
    """An instance that answers until it is gone."""

    number: int
    gone: bool = False

    def get(self, path: str, parameters: dict[str, str]) -> dict[str, Any]:
        if self.gone:
            raise StateStoreMigratedError("it does not answer")
        if path == "/stores/none":
            raise InvalidStateStoreError("there is no such store")
        return {"number": self.number, "path": path}


def test_instances_are_found_once_and_again_when_they_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [[_Client(1)], [_Client(2)]]
    left = iter(found)
    monkeypatch.setattr(ui, "clients_of", lambda *_: next(left))
    common: Any = None
    instances = ui._Instances(common, "shop")
    for _ in range(2):
        assert instances.ask("/stores/a", {}) == {"number": 1, "path": "/stores/a"}
    with pytest.raises(InvalidStateStoreError, match="no such store"):
        instances.ask("/stores/none", {})
    assert instances.ask("/stores/a", {})["number"] == 1
    found[0][0].gone = True
    with pytest.raises(StateStoreMigratedError):
        instances.ask("/stores/a", {})
    assert instances.ask("/stores/a", {})["number"] == 2
