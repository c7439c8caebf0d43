"""Each rule of the task manager broken once: the exact line, and what stands there instead.

``mutations`` runs the simulation suites against each. The source text has to be in its file once:
whoever changes such a line changes its mutation, too.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Mutation:
    """One broken rule. ``rule`` is a number of docs/rules, ``file`` is below ``streamlet/``."""

    name: str
    rule: str
    broken: str
    file: str
    source: str
    replacement: str


MANAGER = "tasks/manager.py"
GATE = "coordinator/commit_gate.py"
ACTIONS = "tasks/task_actions.py"
ACTIVE = "tasks/active.py"
ACTIVATION = "tasks/activation.py"
WORKER = "runtime/worker.py"

MUTATIONS = (
    Mutation(
        "lost-tasks-run-on",
        "M1",
        "a member that loses its id closes nothing",
        MANAGER,
        """        for task in sorted(self._stages(*OURS, TaskStage.HELD)):
            self._close(task)
        for task in self.claims:
            self._end(task)
""",
        """        for task in self.claims:
            self._end(task)
""",
    ),
    Mutation(
        "id-lost-alone",
        "M1",
        "tasks are not lost with the id",
        "coordinator/member.py",
        """        self.lose_tasks(reason)
        self.drop(msg.Heartbeat)
        self.member_id = ""
""",
        """        self.drop(msg.Heartbeat)
        self.member_id = ""
""",
    ),
    Mutation(
        "join-beside-a-unit",
        "M2",
        "a join waits for no unit",
        GATE,
        "return not member.holds and not member.in_flight.of(msg.OffsetCommit)",
        "return not member.in_flight.of(msg.OffsetCommit)",
    ),
    Mutation(
        "open-gate",
        "M2",
        "the commit gate is ignored",
        GATE,
        "return None if is_open else ev.CommitOutcome.GATED",
        "return None",
    ),
    Mutation(
        "opened-again",
        "M3",
        "what runs already is opened again",
        MANAGER,
        "for task in sorted(orders.active - self._stages(*OURS)):",
        "for task in sorted(orders.active):",
    ),
    Mutation(
        "given-up-unclaimed",
        "M4",
        "a task is given up before its claim stands",
        MANAGER,
        "ready = (t for t in self._stages(TaskStage.RUNNING) & wanted if self.records[t].claimed)",
        "ready = self._stages(TaskStage.RUNNING) & wanted",
    ),
    Mutation(
        "unit-without-claims",
        "M4",
        "a unit commits stopped tasks that were not claimed",
        ACTIONS,
        "if not self._commit.begin_claims(unit, tasks):",
        "if True:",
    ),
    Mutation(
        "no-claim",
        "M4",
        "an active period begins without a claim",
        "tasks/commit.py",
        """        changed = [t for t in running if t.claimed and (t.changed or self._look_due(t))]
""",
        """        for t in running:
            t.claimed = True
        changed = [t for t in running if t.claimed and (t.changed or self._look_due(t))]
""",
    ),
    Mutation(
        "claim-of-before",
        "M4",
        "a commit from before a loss is the claim of the task given back",
        ACTIONS,
        "if settled.outcome is ev.CommitOutcome.ACCEPTED and not lost:",
        "if settled.outcome is ev.CommitOutcome.ACCEPTED:",
    ),
    Mutation(
        "old-order",
        "M5",
        "a unit is begun for an order of another generation",
        GATE,
        """        member.state is MembershipState.STABLE
        and wanted.generation == member.generation
""",
        """        member.state is MembershipState.STABLE
""",
    ),
    Mutation(
        "turned-away-releases",
        "M5",
        "a task is released though its last commit was turned away",
        MANAGER,
        "elif outcome in (ev.CommitOutcome.ACCEPTED, ev.CommitOutcome.UNKNOWN):",
        "elif outcome is not ev.CommitOutcome.LOST:",
    ),
    Mutation(
        "no-marker",
        "M5",
        "the hand-over marker is left out",
        MANAGER,
        "marks = {task: to for task in tasks if (to := self._orders.release.get(task))}",
        "marks: dict[TaskId, str] = {}",
    ),
    Mutation(
        "block-stays",
        "M5",
        "a unit that is over blocks joins until its time is up",
        MANAGER,
        """        self._end_orders(now_ms)  # before the hold ends, so that one join does for both
        self._out.append(ev.UnblockJoin(token))
""",
        """        self._end_orders(now_ms)  # before the hold ends, so that one join does for both
""",
    ),
    Mutation(
        "unknown-goes-on",
        "M6",
        "the generation goes on after an unknown outcome",
        GATE,
        "        member.poisoned = member.generation\n",
        "",
    ),
    Mutation(
        "unknown-resumes",
        "M6",
        "a task goes on after an unknown outcome of its marker",
        MANAGER,
        "elif outcome in (ev.CommitOutcome.ACCEPTED, ev.CommitOutcome.UNKNOWN):",
        "elif outcome is ev.CommitOutcome.ACCEPTED:",
    ),
    Mutation(
        "overdue-stays",
        "M6",
        "what an overdue unit stopped is said to be active",
        MANAGER,
        "if (unit := self._unit) is not None and self._stages(TaskStage.STOPPED):",
        "if (unit := self._unit) is not None and not self._stages(TaskStage.STOPPED):",
    ),
    Mutation(
        "any-generations-marker",
        "M7",
        "a marker counts whatever order it answers",
        "coordinator/commit_metadata.py",
        "return self.release_to == member_id and self.generation == generation",
        "return self.release_to == member_id",
    ),
    Mutation(
        "any-members-marker",
        "M7",
        "a marker counts for any member",
        "coordinator/commit_metadata.py",
        "return self.release_to == member_id and self.generation == generation",
        "return self.release_to is not None and self.generation == generation",
    ),
    Mutation(
        "order-not-renewed",
        "M7",
        "an order that is given again keeps its old generation",
        MANAGER,
        """        elif claim.stage is TaskStage.WAITING and task in orders.pending:
            claim.generation = self.generation
""",
        """        elif claim.stage is TaskStage.WAITING and task in orders.pending:
            pass
""",
    ),
    Mutation(
        "waits-for-ever",
        "M8",
        "a hand-over that does not proceed is not given back",
        MANAGER,
        "late = [t for t in waiting if now_ms - self.records[t].since_ms >= self.rules.timeout_ms]",
        "late: list[TaskId] = []",
    ),
    Mutation(
        "failed-in-silence",
        "M8",
        "the group is not told of a task that cannot be opened",
        MANAGER,
        """            self._rejoin(f"cannot take over {task}: {reason}")
""",
        "",
    ),
    Mutation(
        "predecessors-orders",
        "M9",
        "a restarted process carries out the orders of its predecessor",
        "rebalance/protocol.py",
        "            return self._predecessors(self._described, assignment)\n",
        "            pass\n",
    ),
    Mutation(
        "nothing-surrendered",
        "L7",
        "nothing is given up at a join",
        MANAGER,
        "mine &= self._orders.being_learned if self.rules.gives_up_at_joins else frozenset()",
        "mine = set()",
    ),
    Mutation(
        "amid-hand-overs",
        "F1",
        "the group changes its type while tasks are on their way",
        "rebalance/type_migration.py",
        "return now_ms + LOOK_AGAIN_MS if _moves(subscriptions, plan) else None",
        "return None",
    ),
    Mutation(
        "held-unacknowledged",
        "F2",
        "a task is held whatever became of its last commit",
        MANAGER,
        "if unit.for_migration and outcome is ev.CommitOutcome.ACCEPTED:",
        "if unit.for_migration:",
    ),
    Mutation(
        "held-not-claimed",
        "F3",
        "what is held is not said to be active",
        "tasks/task_record.py",
        """            case _:
                return Copy(Role.ACTIVE, self.generation)
""",
        """            case TaskStage.HELD:
                return Copy(Role.DORMANT, lag=0)
            case _:
                return Copy(Role.ACTIVE, self.generation)
""",
    ),
    Mutation(
        "not-compared",
        "F4",
        "a held task goes on though others have committed it",
        ACTIVE,
        "return positions.are(self.committed, self.by, self.epoch) and not waits",
        "return not waits",
    ),
    Mutation(
        "same-epoch",
        "F4",
        "a held task goes on in its old epoch",
        "tasks/active.py",
        "        self.processor.epoch += 1\n",
        "",
    ),
    Mutation(
        "older-claim",
        "F5",
        "of two claims the older counts",
        "rebalance/leader.py",
        "claim = (_RANK[copy.role], -copy.generation, member)",
        "claim = (_RANK[copy.role], copy.generation, member)",
    ),
    Mutation(
        "planned-at-once",
        "F",
        "tasks are planned before all have come into the other group",
        "rebalance/type_migration.py",
        "    if migration is None or len(subscriptions) >= migration.members or "
        "now_ms >= migration.until_ms:\n",
        "    if True:\n",
    ),
    Mutation(
        "copy-let-go",
        "P",
        "the copy that is to be promoted is closed before",
        ACTIONS,
        "needed = (activating | self._activation.tasks) & self._updater.wanted",
        "needed: frozenset[TaskId] = frozenset()",
    ),
    Mutation(
        "stale-promotion",
        "P",
        "a copy promoted to an earlier commit is taken",
        ACTIVE,
        "return is_its and self.known().limit == opened.target.limit",
        "return is_its",
    ),
    Mutation(
        "failed-promotion",
        "P",
        "a task whose copy cannot be promoted is not read instead",
        ACTIVATION,
        """            self._begin_here(coming, coming.known())

    def restore_failed""",
        """            pass

    def restore_failed""",
    ),
    Mutation(
        "failed-restore",
        "P",
        "a task whose stores fail while it is restored is not opened again",
        ACTIVATION,
        """            coming.come_to(OpeningStage.UNLOCKING)
            self.put_off(coming.task, event.reason)
""",
        """            coming.come_to(OpeningStage.CANCELLED)
""",
    ),
    Mutation(
        "promoted-as-it-is",
        "P",
        "a copy is promoted without what it held back",
        "tasks/open_task.py",
        "                part.loader.add(*part.reader.settle(limit))\n",
        "                part.reader.settle(limit)\n",
    ),
    Mutation(
        "closed-late",
        "P",
        "a task waits for a folder that its own worker closes late",
        WORKER,
        """            self._closer.hurry()
            self.registry.add(""",
        """            self.registry.add(""",
    ),
    Mutation(
        "undelivered-kept",
        "C4",
        "a worker goes on with what was not delivered in time",
        WORKER,
        "            self._lose(error)  # the broker was away",
        "            pass  # the broker was away",
    ),
    Mutation(
        "deleted-ahead",
        "P",
        "input that was read ahead and is deleted ends the new owner",
        "runtime/record_loop.py",
        "if self._registry.ahead.give_up(error.partition):",
        "if False:",
    ),
    Mutation(
        "late-member-skips",
        "M1",
        "a member that lost a task goes on behind what its new owner had deleted",
        "tasks/task_failures.py",
        "if target.epoch >= active.epoch + active.claimed:",
        "if False:",
    ),
)
