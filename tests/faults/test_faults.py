"""Faults of requests, one after the other, and stores and outputs that are exact behind each.

Seconds of what ``python -m tests.faults`` does in an hour.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.cases import Case
from tests.faults.subject import Subject

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

#: Late and lost ones of transactions, whose outcome is unknown or an abort, and one of each other
#: request that only transactions make.
CHOSEN = (
    Case("EndTxn", "delay"),
    Case("TxnOffsetCommit", "black hole"),
    Case("TxnOffsetCommit", "ILLEGAL_GENERATION"),
    Case("EndTxn", "disconnect", after=True),
    Case("EndTxn", "INVALID_PRODUCER_EPOCH"),
    Case("AddPartitionsToTxn", "INVALID_TXN_STATE"),
    Case("AddOffsetsToTxn", "NOT_COORDINATOR"),
)


def test_requests_of_transactions_that_are_late_or_lost_lose_and_double_nothing(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    """Each ends in an unknown outcome, or an abort: all tasks begin again at their last commits."""
    with Subject(bootstrap_servers, tmp_path, "exactly_once") as subject:
        for case in CHOSEN:
            print(case, subject.suffer(case))
        subject.finish()
