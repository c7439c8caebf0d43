"""Breaks each rule of commits by transactions in a copy of the package, and plays the histories.

``python -m tests.simulation.transactions.mutations [NAME…]`` prints which history finds each.
"""

from __future__ import annotations

import logging
import sys

from tests.simulation.held.mutations import command
from tests.simulation.mutation_list import Mutation
from tests.simulation.transactions.history import History, verdict
from tests.simulation.transactions.owner import counting, joining
from tests.simulation.transactions.switched import SwitchedHistory

#: Histories at most.
HISTORIES = 1_000
_SINK, _COMMIT = "kafka/transactions.py", "tasks/transactional_commit.py"

MUTATIONS = (
    Mutation(
        "mark-ignored",
        "M7",
        "who is to have a task begins without its mark",
        "coordinator/commit_metadata.py",
        "return self.release_to == member_id and self.generation == generation",
        "return True",
    ),
    Mutation(
        "written-before",
        "X2",
        "the local store is written before the commit",
        "tasks/commit.py",
        """        self._token += 1
        current.move_to(CommitPhase.SENT)
""",
        """        for part in current.parts:
            if part.drained is not None:
                part.write()
                part.drained, part.active.ends = None, part.ends
        self._token += 1
        current.move_to(CommitPhase.SENT)
""",
    ),
    Mutation(
        "generation-not-checked",
        "M1",
        "positions are sent without the member and its generation",
        _SINK,
        "request.group, request.generation, request.member_id, request.instance_id",
        'request.group, -1, "", None',
    ),
    Mutation(
        "no-guard",
        "X1",
        "what is not known to be committed is aborted, and the epoch goes on",
        _SINK,
        """        super().reset()
        try:
            self._await_epoch(_INIT_MS)
""",
        """        self.fence()
        self._failed.clear()
        try:
            self._producer.abort_transaction(_ABORT_S)
            self._begun, self._sealed = False, None
        except KafkaException:
            super().reset()
        try:
            self._await_epoch(_INIT_MS)
""",
    ),
    Mutation(
        "uncommitted-restore",
        "X2",
        "state is restored from what no transaction has committed, too",
        "tasks/opening.py",
        "return settings.read_committed or all(store.source_topic is None for store in stores)",
        "return False",
    ),
    Mutation(
        "no-rewind",
        "X1",
        "tasks go on behind what was aborted",
        _COMMIT,
        """        if self.failed:
            raise UndeliveredError(self.failed)
""",
        """        if self.failed:
            self.forget_queued()
""",
    ),
    Mutation(
        "not-still",
        "X1",
        "records are processed while a commit waits for its answer",
        _COMMIT,
        "return bool(self.failed) or phase not in (CommitPhase.NONE, CommitPhase.ACCEPTED)",
        "return bool(self.failed)",
    ),
    Mutation(
        "one-input",
        "X1",
        "a commit has the position of one input of each task",
        "tasks/commit.py",
        "for tp, offset in part.offsets.items()}",
        "for tp, offset in [*part.offsets.items()][:1]}",
    ),
    Mutation(
        "uncommitted-inputs",
        "X1",
        "tasks read of each other what no transaction has committed, too",
        "config/table.py",
        'return given == "read_committed" or self.exactly_once',
        'return given == "read_committed"',
    ),
    Mutation(
        "claim-as-write",
        "X2",
        "nobody looks for late writes behind an owner that has only claimed",
        "tasks/target.py",
        "return one is not None and one.transaction and one.state.epoch == one.epoch",
        "return one is not None and one.transaction",
    ),
)
#: The histories that are played, and of what application.
PLAYED = ((History, counting), (History, joining), (SwitchedHistory, counting))


def play() -> str:
    """Play histories in this process until one goes wrong."""
    logging.disable()
    for seed in range(HISTORIES):
        for kind, make in PLAYED:
            wrong, _ = verdict(seed, make, kind)
            if wrong:
                return f"{kind.__name__} {seed} of {make.__name__}: {wrong}"
    return ""


if __name__ == "__main__":
    sys.exit(command("tests.simulation.transactions.mutations", MUTATIONS, play))
