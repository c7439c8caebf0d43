"""How much of what they make up tests try, and how many of their cases."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

#: A part is enough where the whole is tried beside, as on another Python.
SHARE: Final = float(os.environ.get("STREAMLET_TEST_SHARE", "1"))


def share_of(many: int) -> int:
    """So many examples; fewer of them where a share is asked for."""
    return max(1, round(many * SHARE))


def share_of_cases(nodeids: Iterable[str]) -> set[str]:
    """Of each test that is run with several arguments so many, from the first to the last of them.

    Args:
        nodeids: pytest's names of tests, with arguments in brackets.
    """
    by_test: defaultdict[str, list[str]] = defaultdict(list)
    for nodeid in nodeids:
        by_test[nodeid.partition("[")[0]].append(nodeid)
    kept = set[str]()
    for cases in by_test.values():
        many = share_of(len(cases))
        kept.update(cases[number * len(cases) // many] for number in range(many))
    return kept
