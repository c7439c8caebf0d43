"""The live page's way to an application: connections of its own, open while it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamlet.admin.status_look import StatusLook
from streamlet.admin.window import ApplicationInfo
from streamlet.control.view import ControlView
from streamlet.hosting.clients import open_window
from streamlet.topology.describe import as_json
from streamlet.web.live.reader import LiveLook, live_status
from streamlet.web.live.values import DescribedTopology


@contextmanager
def live_look(
    application: ApplicationInfo,
    control: Callable[[], ControlView] | None = None,
    letters: frozenset[str] | None = None,
) -> Iterator[LiveLook]:
    """Reads an application for the live page.

    Args:
        application: which; its topology is drawn, else the one that the group noted.
        control: gives what the members say, in place of the control topic.
        letters: topics of dead letters; None: not known.
    """
    topology = application.topology
    drawn = None if topology is None else DescribedTopology.of(as_json(topology))
    with open_window(application, "live") as window:
        yield LiveLook(live_status(StatusLook(window, control=control)), drawn, letters)
