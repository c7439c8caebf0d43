"""What a host notes in its folder of the workers that report to it, and how an instance ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest

from streamlet.app import App, hosted
from streamlet.config import Settings
from streamlet.hosting import host as hosting
from streamlet.hosting.broker_wait import BrokerWait
from streamlet.hosting.host import Host, MetricsPlace
from streamlet.hosting.requests import HostRequests
from streamlet.runtime.metrics.values import Sample, Snapshot
from streamlet.state.directory import INSTANCE_LOCK
from streamlet.state.instances import InstanceFolder


class Answered(BrokerWait):
    """A wait for a broker that is there."""

    def _await_broker(self) -> None:
        pass


class Hosted:
    """A host over a broker that is there, and what became of it."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, metrics: MetricsPlace | None = None
    ) -> None:
        self.forgotten: list[str] = []
        monkeypatch.setattr(hosting, "BrokerWait", Answered)
        monkeypatch.setattr(hosting, "check_topics", lambda *_: {"lines": 2})
        monkeypatch.setattr(hosting, "forget_instance", lambda *of: self.forgotten.append(of[-1]))
        app = App("words")
        app.stream("lines", key=str, value=str).group_by_key().count()
        given = {"bootstrap.servers": "127.0.0.1:1", "state.dir": str(folder)}
        self.requests, self.events = HostRequests(), list[tuple[int, str]]()
        self.host = Host(
            hosted(app, Settings.load(given)),
            "one",
            self.requests,
            2,
            on_event=lambda member, event: self.events.append((member, event["event"])),
            metrics=metrics or MetricsPlace(),
            own_process=False,
        )
        self._file = folder / "words" / INSTANCE_LOCK

    @property
    def folder(self) -> InstanceFolder:
        return InstanceFolder.read(self._file)

    def run(self, work: Callable[[Host], int]) -> int:
        return self.host.run(lambda: work(self.host))


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hosted:
    return Hosted(tmp_path, monkeypatch)


def state(*tasks: str) -> dict[str, object]:
    return {"event": "state", "state": "RUNNING", "tasks": list(tasks)}


def test_its_folder_tells_others_what_workers_do(instance: Hosted) -> None:
    def work(host: Host) -> int:
        assert (instance.folder.name, instance.folder.drains) == ("one", True)
        host.take(0, state("0_0", "0_1"))
        host.take(1, state("0_2"))
        assert instance.folder.tasks == 3
        host.take(0, {"event": "leaving", "since_ms": 7})
        assert instance.folder.leaving_since_ms == 7
        host.take(0, {"event": "staying"})
        assert instance.folder.leaving_since_ms == 0
        host.take(0, {"event": "ended", "drained": False})
        assert instance.folder.tasks == 1
        return 0

    assert instance.run(work) == 0
    after = instance.folder
    assert (after.ended, after.tasks, after.drains) == ("stopped", 0, False)
    assert instance.events == [
        (0, "state"),
        (1, "state"),
        (0, "leaving"),
        (0, "staying"),
        (0, "ended"),
    ]


def test_an_instance_is_drained_when_all_its_workers_are(instance: Hosted) -> None:
    def work(host: Host) -> int:
        host.take(0, {"event": "ended", "drained": True})
        host.take(1, state("0_0"))
        assert not host.drained
        host.take(1, {"event": "ended", "drained": True})
        return 0

    instance.run(work)
    assert instance.host.drained
    assert instance.folder.ended == "drained"
    assert instance.forgotten == [instance.host.process_id]


def test_an_instance_that_fails_has_failed(instance: Hosted) -> None:
    assert instance.run(lambda host: 5) == 5
    assert instance.folder.ended == "failed"

    def work(host: Host) -> int:
        assert instance.folder.ended == "", "it runs again"
        raise ValueError

    with pytest.raises(ValueError):
        instance.run(work)
    assert instance.folder.ended == "failed"
    assert not instance.forgotten


@pytest.mark.parametrize("wish", ["asked", "drain"])
def test_a_request_that_comes_before_there_is_a_worker_ends_the_start(
    instance: Hosted, wish: str
) -> None:
    getattr(instance.requests, wish).set()
    assert instance.run(lambda host: 5) == 0
    assert instance.folder.ended == "stopped"


def test_what_workers_measure_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    urls = list[str]()
    instance = Hosted(tmp_path, monkeypatch, MetricsPlace(0, on_served=urls.append))
    measured = Snapshot((Sample("streamlet_stream_thread_process_total", (), 3),))

    def work(host: Host) -> int:
        host.take(1, measured.to_event())
        host.take(0, {"event": "exited", "exit_code": 1})
        with urlopen(f"{urls[0]}/metrics") as answer:
            page = answer.read().decode()
        assert (
            'streamlet_stream_thread_process_total{application="words",member="one-1"} 3.0' in page
        )
        return 0

    assert instance.run(work) == 0
