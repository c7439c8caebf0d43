"""The applications of a cluster, each by its control topic, with what its group does now."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import closing
from typing import Any

import attrs

from streamlet.admin.snapshot import GroupSnapshot, read
from streamlet.admin.window import REQUEST_MS, GroupWindow, unknown
from streamlet.control.topic import applications_of, control_topic_name
from streamlet.control.values import ALL, Description
from streamlet.control.view import ControlView
from streamlet.errors import NotFoundError
from streamlet.kafka.reading import read_until
from streamlet.rights import on_topics
from streamlet.types import TopicPartition
from streamlet.user_code import shown

#: How long a control topic may give no record, ms.
_SILENT_MS = 15_000


@attrs.frozen
class ApplicationListing:
    """One application of a cluster.

    ``group`` is None where there is no group: it has expired, or this user may not DESCRIBE it.
    """

    name: str
    group: GroupSnapshot | None
    control: ControlView

    @property
    def state(self) -> str | None:
        """The state of its group as Kafka spells it."""
        return None if self.group is None else self.group.described.state

    @property
    def instances(self) -> int:
        """The number of instances that run; a member that cannot be read counts as one."""
        return 0 if self.group is None else len(self.group.instances)

    @property
    def members(self) -> int:
        """The number of members of its group."""
        return 0 if self.group is None else len(self.group.described.members)

    @property
    def leaving(self) -> int:
        """The number of instances that are to leave."""
        there = () if self.group is None else self.group.instances
        return sum(one.key in self.control.marks or one.leaving for one in there)

    @property
    def version(self) -> str | None:
        """The version of streamlet that leads it, or led it last."""
        found = self.control.description
        return None if found is None else found.version

    @property
    def note(self) -> str:
        """A hint to the operator; empty if there is none."""
        if self.control.reset.pending is not None:
            return "a reset is unfinished"
        return "paused" if ALL in self.control.pauses else "partly paused" * self.paused

    @property
    def paused(self) -> bool:
        """True if the application, or a part of it, is paused."""
        return bool(self.control.pauses)

    def as_dict(self) -> dict[str, Any]:
        """The row of ``streamlet list --json``."""
        return {
            "application": self.name,
            "state": self.state,
            "instances": self.instances,
            "members": self.members,
            "leaving": self.leaving,
            "version": self.version,
            "paused": self.paused,
            "reset_unfinished": self.control.reset.pending is not None,
        }


def applications(window: GroupWindow) -> list[ApplicationListing]:
    """Every application that has a control topic, by name.

    Args:
        window: onto the cluster; of whichever application.

    Raises:
        TimedOutError: a control topic was not read in time.
        BrokerError: a broker does not answer, or refuses.
    """
    topics = window.admin.topics().values()
    names = sorted(applications_of(one.name for one in topics if one.partitions == 1) - {""})
    views = _views(window, names)
    asked = [(name, window.transport.describe_group(name, REQUEST_MS)) for name in names]
    answers = [(name, future.result()) for name, future in asked]
    groups = {
        name: None if group.error or group.state == "Dead" else read(group)
        for name, group in answers
    }
    return [ApplicationListing(name, groups[name], views[name]) for name in names]


def description_of(window: GroupWindow) -> Description:
    """The topology of an application, as its leader noted it last.

    Raises:
        NotFoundError: no such application, or no description is noted.
        TimedOutError: the control topic was not read in time.
        BrokerError: a broker does not answer, or refuses.
    """
    check_known(
        window,
        window.admin.topics(),
        "To describe a program give module:attribute, for example flights:app",
    )
    found = window.control.read().description
    if found is None:
        raise NotFoundError(
            f"the control topic of {shown(window.name)} has no description: no instance of this "
            "version has led the group yet, or the topology is too large for a record. Give "
            "module:attribute in place of the id"
        )
    return found


def check_known(window: GroupWindow, topics: Collection[str], hint: str = "") -> None:
    """Refuse an application that has no control topic among these.

    Raises:
        NotFoundError: it has none; the message ends with the hint.
    """
    name = window.control.name
    if name not in topics:
        raise NotFoundError(
            f"{unknown(window.name, topics)} (streamlet list shows all): it has no topic "
            f"{name}, which every instance makes when it starts. If it has: "
            f"{on_topics('READ', [name])}" + (f". {hint}" if hint else "")
        )


def _views(window: GroupWindow, names: Iterable[str]) -> dict[str, ControlView]:
    """The control topics' views of these applications, read by one consumer."""
    places = {TopicPartition(control_topic_name(name), 0): name for name in names}
    views = dict.fromkeys(places.values(), ControlView())
    if not places:
        return views
    begins = window.admin.start_offsets([*places])
    ends = window.admin.end_offsets([*places])
    with closing(window.source()) as source:
        for batch in read_until(
            source, ends, begins=begins, clock=window.clock, silent_ms=_SILENT_MS
        ):
            name = places[TopicPartition(batch.topic, batch.partition)]
            views[name] = views[name].apply_all(zip(batch.keys, batch.values, strict=True))
    return views
