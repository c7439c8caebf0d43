"""The new instances of a swap, while the old ones leave.

The leader keeps the old ones as long as a new one is missing (``rebalance.values.member_states``),
also without a command that watches. The command says so, and after a while gives the swap up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from streamlet.admin.snapshot import GroupSnapshot, InstanceSnapshot
from streamlet.admin.window import GroupWindow
from streamlet.errors import TimedOutError
from streamlet.scaling.leavers import in_order
from streamlet.scaling.scale_down import ScaleDown, ScaleDownRequest


class SuccessorLostError(TimedOutError):
    """A new instance went away and did not come back; ``there`` are the group's process ids."""

    passing = False  # the instance was waited for already

    def __init__(self, reason: str, there: frozenset[str]) -> None:
        super().__init__(reason)
        self.there = there


@attrs.define
class Succession:
    """Looks after the new instances.

    Args:
        window: on the application.
        old: names of the instances that leave.
        new: names of those that must be there meanwhile.
        patience_ms: how long one that is gone is waited for.
        until_ms: when the whole swap has to be over, on the monotonic clock; None: no limit.
        note: called with what an operator has to know.
    """

    window: GroupWindow
    old: tuple[str, ...]
    new: tuple[str, ...]
    patience_ms: float
    until_ms: float | None
    note: Callable[[str], None]
    _missing: list[str] = attrs.field(factory=list)
    _since_ms: int = 0
    #: Process ids of the new instances, as the marks have them.
    _keys: frozenset[str] = frozenset()

    def look(self, group: GroupSnapshot) -> None:
        """Take a new snapshot of the group.

        Raises:
            SuccessorLostError: a new instance has been gone for longer than it is waited for.
        """
        all_instances = group.instances
        missing = lacking(self.new, all_instances)
        if missing != self._missing:
            self._changed(missing, _of(all_instances, self.old))
        if missing:
            self._check_time(missing, all_instances)
            return
        keys = frozenset(one.key for one in _of(all_instances, self.new))
        if self._keys and keys != self._keys:
            self._mark_again(_of(all_instances, self.old))
        self._keys = keys

    def _changed(self, missing: list[str], old: Sequence[InstanceSnapshot]) -> None:
        if missing:
            stay = ", ".join(one.name for one in old) or "none"
            self.note(f"{are(missing)} gone; {stay} keeps what it has until all are back")
        else:
            self.note(f"{are(self._missing)} back")
        if not self._missing:
            self._since_ms = self.window.clock.now_ms()
        self._missing = missing

    def _check_time(self, missing: list[str], all_instances: Sequence[InstanceSnapshot]) -> None:
        now_ms = self.window.clock.now_ms()
        late = self.until_ms is not None and now_ms > self.until_ms
        if late or now_ms - self._since_ms > self.patience_ms:
            there = frozenset(one.key for one in all_instances)
            raise SuccessorLostError(f"{are(missing)} gone and did not come back in time", there)

    def _mark_again(self, old: Sequence[InstanceSnapshot]) -> None:
        """A new instance is back with another state folder: name it in the marks."""
        keys = tuple(one.key for one in old)
        if keys:
            command = ScaleDown(self.window, ScaleDownRequest(names=keys, successors=self.new))
            command.mark(command.plan())


def lacking(names: Sequence[str], all_instances: Sequence[InstanceSnapshot]) -> list[str]:
    """The names that none of the instances bears."""
    there = {name for one in all_instances for name in (one.name, one.key)}
    return in_order({*names} - there)


def are(names: Sequence[str]) -> str:
    """Names joined by commas, with "is" or "are"."""
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _of(all_instances: Sequence[InstanceSnapshot], names: Sequence[str]) -> list[InstanceSnapshot]:
    return [one for one in all_instances if one.name in names or one.key in names]
