"""What members that are gone have left open is aborted, unless they come back."""

from __future__ import annotations

import threading

from streamlet.control.values import MemberKey
from streamlet.errors import UnreachableError
from streamlet.runtime.abandoned import MOST_AWAITED, AbandonedTransactions

A, B, C = (MemberKey(name, 0) for name in "abc")


def test_only_what_members_that_stay_away_left_open_is_aborted() -> None:
    done, aborted, reports = threading.Semaphore(0), [], {A, B, C}

    def abort(key: MemberKey) -> None:
        aborted.append(key)
        done.release()
        raise UnreachableError("away")

    looks = AbandonedTransactions(abort, lambda: reports, patience_s=0.2)
    looks.planned(frozenset([A]))
    looks.planned(frozenset([A, B]))  # it was awaited, and is back
    assert done.acquire(timeout=60)
    reports.discard(C)
    looks.planned(frozenset([B]))
    assert done.acquire(timeout=60)
    assert aborted == [C, A]


def test_a_member_is_missed_that_had_not_reported_yet_and_none_that_ended_itself() -> None:
    reports, aborted = {B}, list[MemberKey]()
    looks = AbandonedTransactions(aborted.append, lambda: reports, patience_s=600)
    looks.planned(frozenset([A, B, C]))
    looks.planned(frozenset([A]))
    reports.discard(B)
    looks.close()
    assert aborted == [C]


def test_a_leader_that_ends_looks_after_those_that_it_awaits_at_once() -> None:
    """The last member of all would leave them to their time-outs."""
    aborted: list[MemberKey] = []
    looks = AbandonedTransactions(aborted.append, lambda: {A, B, C}, patience_s=600)
    looks.planned(frozenset([A]))
    looks.planned(frozenset([A, B]))
    looks.close()
    assert aborted == [C]


def test_reports_of_any_number_of_members_start_no_more_threads_than_hosts_have_workers() -> None:
    """Each client that may write to the control topic can write them."""
    aborted = list[MemberKey]()
    forged = {MemberKey(f"forged{n}", 0) for n in range(3 * MOST_AWAITED)}
    looks = AbandonedTransactions(aborted.append, lambda: forged | {A}, patience_s=600)
    looks.planned(frozenset([A]))
    assert len(looks._awaited) == MOST_AWAITED
    looks.close()
    assert len(aborted) == MOST_AWAITED


def test_no_id_that_may_be_another_applications_is_aborted() -> None:
    """That of ``b-9a`` of the application words is that of ``9a`` of words-b."""
    aborted, mine, theirs = list[MemberKey](), MemberKey("9a", 0), MemberKey("b-9a", 0)
    looks = AbandonedTransactions(aborted.append, lambda: {mine, theirs}, patience_s=600)
    looks.planned(frozenset([A]))
    looks.close()
    assert aborted == [mine]
