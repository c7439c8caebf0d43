"""The counterexamples: which rule is out, how many faults it takes, what breaks then.

Numbers V1 to V12 are those of the protocol's design; letters are further traces of the same rule,
names are rules whose need was found with this model. V13 is in ``type_migration``; what the commit
numbers are for is in ``folders``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from tests.simulation.model.rules import Rules, budget
from tests.simulation.model.steps import HandOver

AT_LEAST_ONCE: Final = Rules()
EXACTLY_ONCE: Final = Rules(exactly_once=True)


@attrs.frozen
class Case:
    """One rule out. ``breaks`` is how the property that then breaks begins.

    ``out`` are the fields of ``Rules`` that leave the rule out, ``base`` those of the protocol that
    is run. ``mended``: with the rule in the same search finds nothing. ``look``: what to look at.
    """

    rule: str
    breaks: str
    faults: tuple[int, ...]
    out: Mapping[str, Any]
    base: Rules = AT_LEAST_ONCE
    look: Mapping[str, Any] = attrs.field(factory=dict)
    mended: bool = True

    def with_rule(self) -> HandOver:
        """The protocol with the rule in."""
        return HandOver(attrs.evolve(self.base, **self.look), self.faults)

    def without_rule(self) -> HandOver:
        """The protocol with the rule out."""
        rules = self.with_rule().rules
        return HandOver(attrs.evolve(rules, **self.out), self.faults)


_MAY_COMMIT: Final = {"able_to_commit_only": True}

CASES: Final[dict[str, Case]] = {
    "V1": Case(
        "M7: the mark's generation is that of the order held",
        "orders: B is to wait for T and runs it already",
        budget(2, ready=1, start=1),
        {"mark_generation": False},
    ),
    "V2": Case(
        "L2: a pending claim binds",
        "S2",
        budget(2, ready=1, expire=1),
        {"pending_binds": False},
    ),
    "V3": Case(
        "M1: tasks go with the member id",
        "S2",
        budget(1, expire=1),
        {"drop_on_loss": False},
    ),
    "V3b": Case(
        "M1: tasks go with the member id (and somebody's commit is passed over)",
        "S1",
        budget(2, expire=2),
        {"drop_on_loss": False},
        look=_MAY_COMMIT,
    ),
    "V3c": Case(
        "M1: tasks go with the member id (exactly-once, both can commit)",
        "S2",
        budget(2, expire=2),
        {"drop_on_loss": False},
        EXACTLY_ONCE,
        look=_MAY_COMMIT,
    ),
    "V4": Case(
        "W2: a mark names a member id, and its generation is compared",
        "S2",
        budget(3, ready=2, expire=1),
        {"mark_generation": False, "mark_to": "slot"},
        EXACTLY_ONCE,
    ),
    "V5": Case(
        "M6: after an unknown outcome nothing else is committed in that generation",
        "S1 the committed offset went back",
        budget(2, ready=1, lose=1),
        {"poison": False},
        look={"owners_own_late_commit": False},
    ),
    "V6": Case(
        "C1: readers skip records below the highest epoch met",
        "S3",
        budget(2, expire=2),
        {"epochs": False},
    ),
    "V7": Case(
        "M2: no commit is in flight while a JoinGroup is out",
        "orders: A is to release T without running it",
        budget(1, ready=1),
        {"gate": False},
        Rules(parked=False),
    ),
    "V8": Case(
        "M2: no JoinGroup between the stop for a release and the mark's answer",
        "S1 B1 starts at 0",
        budget(2, ready=1, start=1),
        {"hold": False},
        Rules(exactly_once=True, leader=1),
    ),
    "V8b": Case(
        "M2, M10: nor is a transaction begun before the one before has its markers",
        "S5",
        budget(2, ready=1, start=1),
        {"hold": False, "next_txn_waits": False},
        EXACTLY_ONCE,
    ),
    "V9": Case(
        "M3: exactly-once restores to the commit's ends, not to the last stable offset",
        "S3",
        budget(1, expire=1),
        {"restore_to": "last stable offset"},
        EXACTLY_ONCE,
    ),
    "V10": Case(
        "M9: a static restart executes no cached hand-over",
        "S2",
        budget(2, ready=1, static=1),
        {"cached_orders_void": False},
    ),
    "V11": Case(
        "L1: a live owner's task is never given outright, deadline or not",
        "S2",
        budget(3, ready=1, start=1, force=1),
        {"deadline": "outright"},
        Rules(deadline="release"),
    ),
    "V11b": Case(
        "L1: a live owner's task is never given outright (exactly-once, both can commit)",
        "S2",
        budget(3, ready=1, start=1, force=1),
        {"deadline": "outright"},
        Rules(exactly_once=True, deadline="release"),
        look=_MAY_COMMIT,
    ),
    "V12": Case(
        "C2, N6: the good record outlives a skipped one until it is written again",
        "S3",
        budget(3, expire=2, compact=1),
        {},
        mended=False,  # the rule is a bound on time; ``folders`` has it
    ),
    "overdue": Case(
        "M2, M6: a stopped task whose answer is not taken in time is declared released",
        "S2",
        budget(3, ready=1, start=1, slow=1),
        {"overdue": "active"},
    ),
    "N3": Case(
        "N3: a restore stops at the number of the commit",
        "S5",
        budget(1, expire=1),
        {"numbers": False},
    ),
    "switch": Case(
        "exemption: a generation that moved on under a parked join is no loss",
        "orders: A is to release T without running it",
        budget(1, ready=1),
        {"switched_keeps": False},
    ),
    "parked release": Case(
        "exemption: no release is begun while a JoinGroup is out (M5)",
        "orders: A is to release T without running it",
        budget(2, ready=1, start=1),
        {"parked_releases": True},
    ),
    "parked poison": Case(
        "exemption: M6 holds while a JoinGroup is parked",
        "S1 the committed offset went back",
        budget(2, ready=1, lose=1),
        {"parked_poison": False},
    ),
}

#: Takes minutes: epochs are unique only because of the claim (M4).
SLOW: Final[dict[str, Case]] = {
    "M4": Case(
        "M4: nothing goes to the changelog before the claim was accepted",
        "S3",
        budget(3, expire=3),
        {"claim": False},
    ),
}

#: The protocol in all its modes: rules, faults to choose from, and those always among them.
PROTOCOLS: Final[dict[str, tuple[Rules, tuple[str, ...], tuple[str, ...]]]] = {
    "at-least-once": (
        Rules(),
        ("ready", "crash", "expire", "start", "lose", "cut", "slow", "static"),
        ("ready",),
    ),
    "strict-gate": (
        Rules(parked=False),
        ("ready", "crash", "expire", "start", "lose", "cut", "slow", "static"),
        ("ready",),
    ),
    "exactly-once": (
        EXACTLY_ONCE,
        ("ready", "crash", "expire", "start", "cut", "static"),
        ("ready",),
    ),
    "surrender": (
        Rules(mode="surrender"),
        ("ready", "crash", "expire", "start", "lose", "cut"),
        ("ready",),
    ),
    "surrender-exactly-once": (
        Rules(exactly_once=True, mode="surrender"),
        ("ready", "crash", "expire", "start", "cut"),
        ("ready",),
    ),
    "revoke": (
        Rules(mode="revoke"),
        ("ready", "move", "crash", "expire", "start", "lose", "cut", "slow", "static"),
        ("ready", "move"),
    ),
    "deadline": (
        Rules(deadline="release"),
        ("force", "crash", "expire", "start", "lose", "cut", "slow"),
        ("force",),
    ),
    "deadline-exactly-once": (
        Rules(exactly_once=True, deadline="release"),
        ("force", "crash", "expire", "start", "cut"),
        ("force",),
    ),
}
