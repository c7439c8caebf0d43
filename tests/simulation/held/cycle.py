"""Histories of held edges that lead in a circle, as those of a join by a foreign key do.

Tasks of the first stage behind the input ask those of the second, and these answer in the topic
that the first ones read. Each commit moves positions behind markers, and each marker moves the
position of a reader: such tasks come to rest only where a commit without records tells nothing.
"""

from __future__ import annotations

from collections.abc import Hashable

from tests.simulation.held.code import CodeHistory
from tests.simulation.held.history import History
from tests.simulation.held.tasks import Log, Task


class CycleHistory(History):
    """A history whose last stage writes to the topic that the first one reads."""

    lengths = (2,)

    def _behind(self, stage: int, log: Log) -> Task:
        following = (stage + 1) % len(self._topics)
        return self._task(self._topics[following], log=log)

    def _writers(self, topic: int) -> list[Task]:
        return [*self._stages[topic], *(self._stages[-1] if topic == 0 else ())]

    def _ends(self, value: Hashable) -> bool:
        """True for an answer: nothing is asked again because of it."""
        return isinstance(value, tuple) and any(one.number == value[0] for one in self._stages[-1])


class CycleCodeHistory(CycleHistory, CodeHistory):
    """The same with the code that ships."""
