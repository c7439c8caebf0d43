"""The partitions protocol by hand: what a leader plans, and what a member makes of its answer."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.errors import FatalGroupError
from streamlet.partitions.leader import checked, plan, read
from streamlet.partitions.protocol import PartitionsProtocol
from streamlet.partitions.sticky import ConsumerMember, PartitionAssignor, sticky
from streamlet.partitions.wire import (
    V0_EAGER,
    V1_COOPERATIVE,
    PartitionsAssignment,
    PartitionsError,
    PartitionsSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from streamlet.rebalance.values import JoinedMember, NeedMetadata, RunAssignor
from streamlet.types import TopicPartition


def t(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("t", n) for n in numbers)


def v0() -> PartitionsSubscription:
    return PartitionsSubscription(V0_EAGER, ("t",))


def v1(*owned: int, generation: int = 1) -> PartitionsSubscription:
    return PartitionsSubscription(V1_COOPERATIVE, ("t",), t(*owned), generation=generation)


def joined(**said: PartitionsSubscription) -> list[JoinedMember]:
    return [JoinedMember(name, None, encode_subscription(each)) for name, each in said.items()]


def planned(
    partitions: int = 4, assign: PartitionAssignor = sticky, **said: PartitionsSubscription
) -> dict[str, PartitionsAssignment]:
    return plan(read(joined(**said)), {"t": partitions}, assign)


def wants(**target: frozenset[TopicPartition]) -> PartitionAssignor:
    """An assignor that has made up its mind."""
    return lambda members, partitions: {m.member_id: target[m.member_id] for m in members}


def parts(
    plans: Mapping[str, PartitionsAssignment],
) -> dict[str, tuple[frozenset[TopicPartition], frozenset[TopicPartition]]]:
    return {name: (part.assigned, part.revoked) for name, part in plans.items()}


# -- the leader ------------------------------------------------------------------------------------


def test_cooperative_what_moves_is_revoked_first_and_given_to_nobody_yet() -> None:
    """001 part I, 3d: a changed owner is told to the old one, and not to the new one."""
    found = parts(planned(a=v1(0, 1, 2, 3), b=v1(), assign=wants(a=t(0, 1), b=t(2, 3))))
    assert found == {"a": (t(0, 1), t(2, 3)), "b": (t(), t())}


def test_cooperative_what_nobody_has_is_given_at_once() -> None:
    """001 part I, 3c: revoked before, or a new partition."""
    found = parts(planned(a=v1(0), b=v1(), assign=wants(a=t(0, 1), b=t(2, 3))))
    assert found == {"a": (t(0, 1), t()), "b": (t(2, 3), t())}


def test_eager_the_assignors_word_counts_as_it_is() -> None:
    found = parts(planned(a=v0(), b=v0(), assign=wants(a=t(0, 1), b=t(2, 3))))
    assert found == {"a": (t(0, 1), t()), "b": (t(2, 3), t())}


def test_mixed_v1_members_keep_what_they_have_and_v0_members_get_nothing() -> None:
    """001 part I, case 3, whatever the assignor would rather have."""
    plans = planned(a=v1(0, 1, 2), b=v1(3), c=v0(), assign=wants(a=t(0, 1), b=t(2, 3)))
    assert parts(plans) == {"a": (t(0, 1, 2), t()), "b": (t(3), t()), "c": (t(), t())}
    assert {part.error for part in plans.values()} == {PartitionsError.INCOMPATIBLE}
    assert {name: part.version for name, part in plans.items()} == {"a": 1, "b": 1, "c": 0}


def test_mixed_what_a_departed_member_had_goes_to_v1_members() -> None:
    """It would lie unread until the last V0 member is gone."""
    found = parts(planned(a=v1(0), b=v1(1), c=v0()))
    assert found["a"][0] | found["b"][0] == t(0, 1, 2, 3)
    assert len(found["a"][0]) == len(found["b"][0]) == 2
    assert found["c"] == (t(), t())


def test_mixed_the_assignor_is_asked_about_v1_members_only() -> None:
    asked: list[str] = []

    def assign(
        members: object, partitions: tuple[TopicPartition, ...]
    ) -> dict[str, tuple[TopicPartition, ...]]:
        asked.extend(m.member_id for m in members)  # type: ignore[attr-defined]
        return {"a": partitions}

    planned(a=v1(), b=v0(), assign=assign)
    assert asked == ["a"]


def test_when_the_last_v0_member_is_gone_the_group_is_cooperative() -> None:
    plans = planned(a=v1(0, 1, 2, 3), b=v1())
    assert not plans["a"].error
    assert len(plans["a"].revoked) == 2


def test_one_that_cannot_be_read_is_told_so_and_nobody_gains_anything() -> None:
    members = [*joined(a=v1(0), b=v0()), JoinedMember("x", None, b"?")]
    plans = plan(read(members), {"t": 4}, sticky)
    assert parts(plans) == {"a": (t(0), t()), "b": (t(), t()), "x": (t(), t())}
    assert plans["x"].error == PartitionsError.UNREADABLE
    assert not plans["a"].error


@pytest.mark.parametrize("others", [{}, {"c": v0()}])
def test_of_two_claims_on_one_partition_the_newer_counts(
    others: dict[str, PartitionsSubscription],
) -> None:
    """It cannot be as long as all keep to the protocol; if it is, one of them must stop."""
    plans = planned(a=v1(0, 1, 2, 3, generation=4), b=v1(0, generation=7), **others)
    assert plans["a"].revoked >= t(0)
    assert not t(0) & plans["a"].assigned
    assert plans["b"].assigned | plans["b"].revoked >= t(0)


def test_members_may_read_different_topics() -> None:
    said = {
        "a": PartitionsSubscription(V1_COOPERATIVE, ("t", "u")),
        "b": PartitionsSubscription(V1_COOPERATIVE, ("u",)),
    }
    plans = plan(read(joined(**said)), {"t": 2, "u": 2, "gone": 3}, sticky)
    assert plans["a"].assigned == t(0, 1)
    assert {p.topic for p in plans["b"].assigned} == {"u"}


def test_a_topic_that_is_not_read_any_more_is_revoked() -> None:
    owned = t(0) | {TopicPartition("u", 0)}
    plans = planned(partitions=1, a=PartitionsSubscription(V1_COOPERATIVE, ("t",), owned))
    assert parts(plans) == {"a": (t(0), frozenset({TopicPartition("u", 0)}))}


@st.composite
def groups(draw: st.DrawFn) -> dict[str, PartitionsSubscription]:
    """Up to five members of both versions; no partition is claimed twice."""
    names = [f"m{n}" for n in range(draw(st.integers(1, 5)))]
    owner = st.sampled_from([*names, None])
    owners = [draw(owner) for _ in range(draw(st.integers(0, 8)))]
    old = draw(st.frozensets(st.sampled_from(names)))
    return {
        name: v0() if name in old else v1(*(n for n, o in enumerate(owners) if o == name))
        for name in names
    }


@given(groups(), st.integers(0, 8), st.randoms())
def test_no_plan_gives_away_what_another_member_has(said, partitions, random) -> None:
    """Nor does it depend on the order of the members, or break the members' own check."""
    plans = plan(read(joined(**said)), {"t": partitions}, sticky)
    shuffled = joined(**said)
    random.shuffle(shuffled)
    assert plan(read(shuffled), {"t": partitions}, sticky) == plans
    given_out = [p for part in plans.values() for p in part.assigned]
    assert len(given_out) == len(set(given_out))
    for name, part in plans.items():
        others = frozenset[TopicPartition]().union(*(s.owned for n, s in said.items() if n != name))
        assert not part.assigned & others
        assert said[name].owned - part.revoked <= part.assigned
        assert part.revoked <= said[name].owned
    had = frozenset[TopicPartition]().union(*(s.owned for s in said.values()))
    assert t(*range(partitions)) <= set(given_out) | had, "somebody could have had it"


# -- the assignor ----------------------------------------------------------------------------------


@given(groups(), st.integers(0, 12))
def test_sticky_is_even_and_moves_no_more_than_that_takes(said, partitions) -> None:
    members = [ConsumerMember(n, frozenset({"t"}), s.owned) for n, s in said.items()]
    everything = sorted(t(*range(partitions)))
    found = sticky(members, everything)
    loads = sorted(len(load) for load in found.values())
    assert loads[-1] - loads[0] <= 1
    assert sorted(p for load in found.values() for p in load) == everything
    kept = {m.member_id: len(m.owned & set(everything)) for m in members}
    share, more = divmod(partitions, len(members))
    rich = sorted(kept.values(), reverse=True)
    most = [share + (n < more) for n in range(len(rich))]
    must_move = sum(max(0, has - may) for has, may in zip(rich, most, strict=True))
    moved = sum(len(m.owned & set(everything) - set(found[m.member_id])) for m in members)
    assert moved == must_move


def test_sticky_spreads_each_topic() -> None:
    """Even by number alone, one member could have all of a busy topic."""
    topics = frozenset({"t", "u"})
    everything = [TopicPartition(topic, n) for topic in "tu" for n in range(4)]
    members = [ConsumerMember("a", topics, frozenset(everything)), ConsumerMember("b", topics)]
    found = sticky(members, everything)
    assert sorted(p.topic for p in found["b"]) == ["t", "t", "u", "u"]


ONLY_T = ConsumerMember("a", frozenset({"t"}))


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({"z": t(0, 1)}, "z is no member"),
        ({"a": t(0, 1, 2)}, "t-2 does not exist"),
        ({"a": t(0)}, "t-1 is given to no member"),
        ({"a": t(0, 1), "b": t(1)}, "t-1 is given twice, to a and b"),
        ({"a": t(0, 1), "c": t(1)}, "c does not read t"),
    ],
)
def test_an_assignors_answer_is_checked(answer, complaint) -> None:
    members = [
        ConsumerMember("a", frozenset({"t"})),
        ConsumerMember("b", frozenset({"t"})),
        ConsumerMember("c", frozenset({"u"})),
    ]
    with pytest.raises(ValueError, match=complaint):
        checked(answer, members, sorted(t(0, 1)))


def test_an_assignor_may_name_members_or_their_ids_and_plain_pairs() -> None:
    assert checked({ONLY_T: [("t", 0)]}, [ONLY_T], sorted(t(0))) == {"a": t(0)}


# -- the member ------------------------------------------------------------------------------------


class Member:
    """A member's protocol, and what it asked for."""

    def __init__(self, version: int = V1_COOPERATIVE) -> None:
        self.rejoins: list[str] = []
        self.overtaken: list[str] = []
        self.protocol = PartitionsProtocol(
            ["t"],
            version,
            partitions=lambda topics: {"t": 4},
            tags={"zone": "x"},
            rejoin=self.rejoins.append,
            overtaken=self.overtaken.append,
        )

    def says(self, generation: int = 1, nonce: int = 5, reduced: int = 0) -> PartitionsSubscription:
        need = NeedMetadata(1, "a", generation, nonce, reduced)
        ((_, data),) = self.protocol.subscribe(need, {})
        return decode_subscription(data)

    def hears(
        self,
        assigned: frozenset[TopicPartition],
        revoked: frozenset[TopicPartition] = frozenset(),
        error: int = 0,
    ) -> None:
        """The leader's answer to what was said last."""
        said = self.protocol._subscription
        assert said is not None
        answer = PartitionsAssignment(
            said.version, assigned, revoked, error, said.nonce, said.identity
        )
        self.protocol.decode(encode_assignment(answer))


def settled(*owned: int, version: int = V1_COOPERATIVE) -> Member:
    member = Member(version)
    member.says(generation=-1)
    member.hears(t(*owned))
    return member


def test_a_cooperative_member_says_what_it_has() -> None:
    said = settled(0, 1).says(generation=3)
    assert (said.version, said.owned, said.generation) == (1, t(0, 1), 3)
    assert said.tags == {"zone": "x"}


def test_what_is_revoked_stays_claimed_until_it_is_given_up_then_everybody_joins_again() -> None:
    member = settled(0, 1)
    member.says()
    member.hears(t(0), t(1))
    assert member.protocol.received.revoked == t(1)
    assert member.says().owned == t(0, 1)
    assert not member.rejoins
    member.protocol.gave_up(t(1))
    assert member.says().owned == t(0)
    assert len(member.rejoins) == 1
    member.protocol.gave_up(t(1))
    assert len(member.rejoins) == 1


def test_what_was_given_back_while_it_was_given_up_stays_claimed() -> None:
    """Two rebalances in a row: revoked in one, left where it was by the next."""
    member = settled(0, 1)
    member.says()
    member.hears(t(0), t(1))
    member.says()
    member.hears(t(0, 1))
    member.protocol.gave_up(t(1))
    assert member.protocol.claims == t(0, 1)
    assert not member.rejoins


def test_an_assignment_that_lacks_what_was_not_revoked_is_fatal_and_names_it() -> None:
    """001 part I, 2a: the new one must be a superset of what was assigned without the revoked."""
    member = settled(0, 1, 2)
    member.says()
    with pytest.raises(FatalGroupError, match=r"not revoked first: t-1$"):
        member.hears(t(0), t(2))
    assert member.protocol.claims == t(0, 1, 2)


def test_a_leader_that_cannot_read_us_is_fatal() -> None:
    member = Member()
    member.says()
    with pytest.raises(FatalGroupError, match="cannot read what this member says"):
        member.hears(t(), error=PartitionsError.UNREADABLE)


def test_an_assignment_that_is_none_is_fatal() -> None:
    with pytest.raises(FatalGroupError, match="what is no assignment"):
        Member().protocol.decode(b"\x00")


def test_rebalances_of_both_versions_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    """``num.incompatible.rebalance``; such an assignment does not ask for another rebalance."""
    member = settled(0)
    for _ in range(2):
        member.says()
        member.hears(t(0), error=PartitionsError.INCOMPATIBLE)
    assert member.protocol.incompatible_rebalances == 2
    assert member.protocol.received.error == PartitionsError.INCOMPATIBLE
    assert "rebalance.protocol eager and cooperative" in caplog.text
    assert not member.rejoins


def test_an_eager_member_that_gave_everything_up_says_nothing_and_takes_what_it_gets() -> None:
    member = settled(0, 1, version=V0_EAGER)
    member.protocol.surrender(member.protocol.received)
    assert member.says().owned == frozenset()
    member.hears(t(2))
    assert member.protocol.claims == t(2)
    assert not member.overtaken


def test_a_surrender_that_is_late_leaves_alone_what_was_given_since() -> None:
    """A callback takes its time; meanwhile everything is lost, and something else assigned."""
    member = settled(0, 1, version=V0_EAGER)
    seen = member.protocol.received
    member.protocol.lost()
    member.says(generation=-1)
    member.hears(t(2))
    member.protocol.surrender(seen)
    assert member.protocol.claims == t(2)


def test_an_eager_member_that_must_join_before_it_gave_up_loses_what_it_has() -> None:
    """Others will get it, so whoever reads it must stop and commit no more."""
    member = settled(0, 1, version=V0_EAGER)
    member.says()
    assert len(member.overtaken) == 1
    assert member.protocol.claims == frozenset()


def test_a_member_without_a_generation_claims_nothing() -> None:
    assert settled(0).says(generation=-1).owned == frozenset()
    member = settled(0)
    member.protocol.lost()
    assert member.says().owned == frozenset()


def test_a_group_too_large_to_store_loses_its_tags_not_its_claims() -> None:
    said = settled(0).says(reduced=1)
    assert (said.owned, said.tags) == (t(0), {})


def test_a_static_member_that_restarts_takes_what_its_predecessor_had() -> None:
    """Nothing has changed, so nobody is asked."""
    before = settled(0, 1).protocol._subscription
    assert before is not None
    member = Member()
    said = member.says(generation=-1, nonce=1_000)
    cached = PartitionsAssignment(1, t(0, 1), frozenset(), 0, before.nonce, said.identity)
    member.protocol.decode(encode_assignment(cached))
    assert member.protocol.claims == t(0, 1)
    assert not member.rejoins


@pytest.mark.parametrize(
    ("version", "revoked"), [(V0_EAGER, t()), (V1_COOPERATIVE, t(2))], ids=["upgraded", "moving"]
)
def test_a_static_member_that_restarts_with_something_new_has_the_group_plan_again(
    version: int, revoked: frozenset[TopicPartition]
) -> None:
    """The coordinator tells nobody of its new version, and what was to move would lie unread."""
    member = Member()
    member.says(generation=-1, nonce=1_000)
    identity = PartitionsSubscription(version, ("t",), tags={"zone": "x"}).identity
    cached = PartitionsAssignment(version, t(0, 1), revoked, 0, 5, identity)
    member.protocol.decode(encode_assignment(cached))
    assert member.protocol.claims == t(0, 1)
    assert len(member.rejoins) == 1


def test_a_leader_answers_everybody_in_its_own_version() -> None:
    member = Member()
    run = RunAssignor(1, tuple(joined(a=v1(), b=v0())), member_id="a")
    found = {name: decode_assignment(data) for name, data in member.protocol.assign(run).items()}
    assert found["a"].assigned == t(0, 1, 2, 3)
    assert found["b"].version == V0_EAGER
    assert member.protocol.planned_for == {"t": 4}
