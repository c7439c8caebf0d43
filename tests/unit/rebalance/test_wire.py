"""Subscriptions and assignments survive the wire, stay small, and bad bytes get a name."""

from __future__ import annotations

import contextlib
import random
import struct
import uuid
import zlib

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamlet.assignor.values import Copy, Leaving, Role
from streamlet.rebalance import numbering, wire, wire_schemas
from streamlet.rebalance.values import Assignment, Subscription, TypeMigration
from streamlet.types import TaskId

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.integers(0, 2**31 - 1)
TASKS = st.builds(TaskId, st.integers(0, 199_999), st.integers(0, 199_999))
TEXT = st.text(max_size=20)
IDS = st.one_of(TEXT, st.uuids().map(str), st.builds(lambda t, u: f"{t}-{u}", TEXT, st.uuids()))
COPIES = st.builds(
    Copy, st.sampled_from(Role), INTS, st.booleans(), st.none() | st.integers(0, 2**62)
)
MIGRATIONS = st.none() | st.builds(TypeMigration, TEXT, INTS, LONGS)
SUBSCRIPTIONS = st.builds(
    Subscription,
    instance=IDS,
    name=TEXT,
    member=NUMBERS,
    capacity=st.floats(1e-9, 1e9),
    instance_members=NUMBERS,
    subtopologies=st.lists(st.binary(min_size=8, max_size=8), max_size=4).map(tuple),
    copies=st.dictionaries(TASKS, COPIES, max_size=12),
    instance_id=st.none() | TEXT,
    leaving=st.none()
    | st.builds(Leaving, LONGS, st.none() | LONGS, st.lists(IDS, max_size=3).map(tuple)),
    deferral_deadline_ms=st.none() | LONGS,
    tags=st.dictionaries(TEXT, TEXT, max_size=3),
    joined_generation=INTS,
    nonce=LONGS,
    wants_type=TEXT,
    learners=st.booleans(),
    stateful=st.frozensets(NUMBERS, max_size=4),
    imbalance=st.none() | st.floats(0, 1),
    started_ms=LONGS,
    mode=st.sampled_from(["incremental", "eager", "upgrading"]),
    migration=MIGRATIONS,
    belongings=st.lists(st.binary(max_size=12), max_size=4).map(tuple),
)
TASK_SETS = st.frozensets(TASKS, max_size=8)
ORDERS = st.dictionaries(TASKS, IDS, max_size=4)
ASSIGNMENTS = st.builds(
    Assignment,
    active=TASK_SETS,
    learner=TASK_SETS,
    standby=TASK_SETS,
    release=ORDERS,
    pending=ORDERS,
    revoke=TASK_SETS,
    leave=st.booleans(),
    follow_up_ms=st.none() | LONGS,
    deferral_deadline_ms=st.none() | LONGS,
    error=INTS,
    leader=IDS,
    answers_nonce=LONGS,
    answers_identity=st.binary(max_size=8),
    generation=INTS,
    made_ms=st.none() | LONGS,
    reason=TEXT,
    being_learned=TASK_SETS,
    migration=MIGRATIONS,
    release_delay_ms=st.integers(0, 2_000),
    unassigned=TASK_SETS,
    awaited=TASK_SETS,
)


@given(SUBSCRIPTIONS)
def test_a_subscription_is_read_as_it_was_written(subscription):
    assert wire.decode_subscription(wire.encode_subscription(subscription)) == subscription


@given(ASSIGNMENTS)
def test_an_assignment_is_read_as_it_was_written(assignment):
    assert wire.decode_assignment(wire.encode_assignment(assignment)) == assignment


@given(SUBSCRIPTIONS)
def test_equal_subscriptions_have_equal_bytes_whatever_the_order_of_their_parts(subscription):
    """The broker compares bytes: a member that says the same must not cause a rebalance."""
    turned = Subscription(
        **{
            **{f: getattr(subscription, f) for f in Subscription.__slots__ if f != "__weakref__"},
            "copies": dict(reversed(subscription.copies.items())),
            "tags": dict(reversed(subscription.tags.items())),
        }
    )
    assert wire.encode_subscription(turned) == wire.encode_subscription(subscription)


@given(SUBSCRIPTIONS, ASSIGNMENTS)
def test_what_an_older_version_has_no_place_for_is_left_out(subscription, assignment):
    """1 has no modes and migrations, 2 no turns, 3 no successors, 4 no awaited ones."""
    leaving = subscription.leaving
    alone = None if leaving is None else attrs.evolve(leaving, successors=())
    third = attrs.evolve(subscription, leaving=alone, belongings=())
    read = wire.decode_subscription(wire.encode_subscription(subscription, 1))
    assert read == attrs.evolve(third, mode="incremental", migration=None)
    assert wire.decode_subscription(wire.encode_subscription(subscription, 3)) == third
    nothing = frozenset[TaskId]()
    told = wire.decode_assignment(wire.encode_assignment(assignment, 1))
    assert told == attrs.evolve(
        assignment, migration=None, release_delay_ms=0, unassigned=nothing, awaited=nothing
    )
    told = wire.decode_assignment(wire.encode_assignment(assignment, 2))
    assert told == attrs.evolve(assignment, release_delay_ms=0, unassigned=nothing, awaited=nothing)
    told = wire.decode_assignment(wire.encode_assignment(assignment, 3))
    assert told == attrs.evolve(assignment, unassigned=nothing, awaited=nothing)
    told = wire.decode_assignment(wire.encode_assignment(assignment, 4))
    assert told == attrs.evolve(assignment, awaited=nothing)
    assert wire.decode_assignment(wire.encode_assignment(assignment, 5)) == assignment
    assert wire.decode_subscription(wire.encode_subscription(subscription, 5)) == subscription


def test_no_bytes_are_the_empty_assignment():
    """A coordinator gives empty bytes to a member its leader left out."""
    assert wire.decode_assignment(b"") == Assignment()


@given(st.binary(max_size=60))
@example(b"")
@example(b"\x00\x00\x00\x01\x00\x00\x00\x01")
@example(b"\x00\x00\x00\x02\x00\x00\x00\x01rest")
@example(b"\xff\xff\xff\xff\x00\x00\x00\x01rest")
def test_any_bytes_are_read_or_refused_by_name(data):
    for decode in (wire.decode_subscription, wire.decode_assignment):
        with contextlib.suppress(wire.WireError):
            decode(data)


def packed(body: bytes, version: int = 1) -> bytes:
    squeeze = zlib.compressobj(wbits=-15)
    return struct.pack(">ii", version, version) + squeeze.compress(body) + squeeze.flush()


@given(st.binary(max_size=200))
def test_any_body_is_read_or_refused_by_name(body):
    for decode in (wire.decode_subscription, wire.decode_assignment):
        with contextlib.suppress(wire.WireError):
            decode(packed(body))
        with contextlib.suppress(wire.WireError):
            decode(packed(body, wire.VERSION))


@given(ASSIGNMENTS, SUBSCRIPTIONS, st.data())
def test_a_damaged_body_is_read_or_refused_by_name(assignment, subscription, data):
    """One byte of the record is another one: fields that do not fit, roles there are not."""
    for encode, decode, value in (
        (wire.encode_assignment, wire.decode_assignment, assignment),
        (wire.encode_subscription, wire.decode_subscription, subscription),
    ):
        body = bytearray(zlib.decompress(encode(value)[8:], -15))
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        with contextlib.suppress(wire.WireError):
            decode(packed(bytes(body), wire.VERSION))


@given(SUBSCRIPTIONS)
def test_a_body_that_is_cut_off_or_goes_on_is_refused(subscription):
    data = wire.encode_subscription(subscription)
    with pytest.raises(wire.WireError):
        wire.decode_subscription(data[:-1])
    with pytest.raises(wire.WireError):
        wire.decode_subscription(data + b"more")
    with pytest.raises(wire.WireError, match="more than one record"):
        wire.decode_subscription(packed(zlib.decompress(data[8:], -15) + b"\x00", wire.VERSION))


def test_a_body_that_unpacks_to_too_much_is_refused(monkeypatch):
    """A few hundred bytes of deflate can unpack to gigabytes."""
    monkeypatch.setattr(wire, "_UNPACKED_MAX", 1_000)
    with pytest.raises(wire.WireError, match="too long"):
        wire.decode_subscription(packed(b"\x00" * 10_000))


def test_the_head_of_a_too_new_member_can_be_read():
    """During a rolling upgrade an old leader meets a member that joined with a later version."""
    later = wire.VERSION + 1
    data = struct.pack(">ii", later, later + 1) + b"whatever a later streamlet writes"
    assert wire.read_head(data) == wire.WireHeader(later, later + 1)
    assert wire.read_head(data).common() == wire.VERSION
    with pytest.raises(wire.TooNewError, match=f"version {later} is above ours"):
        wire.decode_subscription(data)
    with pytest.raises(wire.TooNewError):
        wire.decode_assignment(data)


def test_hashes_of_another_length_are_not_written():
    with pytest.raises(ValueError, match="8 bytes"):
        wire.encode_subscription(Subscription("i", "n", 0, 1.0, 1, (b"short",)))


def test_the_identity_changes_with_what_a_member_is_and_not_with_what_it_has():
    """A static restart needs a rebalance when the topology is another one, not for a new nonce."""
    member = Subscription("i", "n", 0, 1.0, 1, (b"12345678",), nonce=1)
    same = Subscription(
        "i",
        "n",
        0,
        1.0,
        1,
        (b"12345678",),
        nonce=2,
        joined_generation=7,
        copies={TaskId(0, 0): Copy(Role.DORMANT)},
    )
    other = Subscription("i", "n", 0, 1.0, 1, (b"87654321",), nonce=1)
    assert wire.identity_of(member) == wire.identity_of(same)
    assert wire.identity_of(member) != wire.identity_of(other)
    assert wire.same_program(wire.identity_of(member), wire.identity_of(same))
    assert not wire.same_program(wire.identity_of(member), wire.identity_of(other))
    assert len(wire.identity_of(member)) == 8


def names_of(subtopology: int) -> list[str]:
    """What it reads, and the store that three of five have, with its types."""
    store = f"flights-{subtopology}"
    kept = [f"store {store}", f"{numbering.TYPES}{store}: str -> Flight"]
    return [f"topic input-{subtopology}", *(kept if subtopology in {0, 1, 3} else [])]


def big_group(members: int, tasks: int) -> tuple[list[bytes], list[bytes]]:
    """A group in full swing: each member has actives and standbys with lags; some hand over."""
    chance = random.Random(7)
    all_tasks = [TaskId(n % 5, n // 5) for n in range(members * tasks)]
    chance.shuffle(all_tasks)
    ids = [
        f"flights-host-{n // 2}-{n % 2}-{uuid.UUID(int=chance.getrandbits(128))}"
        for n in range(members)
    ]
    hashes = tuple(chance.randbytes(8) for _ in range(5))
    belongings = numbering.packed(map(names_of, range(5)))
    subscriptions, assignments = [], []
    for n in range(members):
        mine = all_tasks[n * tasks : (n + 1) * tasks]
        kept = [all_tasks[(n * tasks + k * 7919) % len(all_tasks)] for k in range(tasks)]
        copies = {t: Copy(Role.STANDBY, -1, True, chance.randrange(5_000)) for t in kept}
        copies |= {t: Copy(Role.ACTIVE, 41 + k % 2) for k, t in enumerate(mine)}
        said = Subscription(
            instance=str(uuid.UUID(int=chance.getrandbits(128))),
            name=f"host-{n // 2}",
            member=n % 2,
            capacity=2.0,
            instance_members=2,
            subtopologies=hashes,
            copies=copies,
            tags={"zone": f"eu-{n % 3}"},
            joined_generation=3,
            stateful=frozenset({0, 1, 3}),
            nonce=1_700_000_000_000 + chance.randrange(10**9),
            imbalance=0.2,
            started_ms=1_700_000_000_000 + chance.randrange(10**9),
            belongings=belongings,
        )
        subscriptions.append(wire.encode_subscription(said))
        orders = {mine[0]: ids[(n + 1) % members]} if n % 10 == 0 else {}
        answer = Assignment(
            active=frozenset(mine),
            standby=frozenset(kept),
            release=orders,
            leader=ids[0] if n == 0 else "",
            generation=42 if n == 0 else -1,
            made_ms=1_700_000_000_000 if n == 0 else None,
            reason="rebalance in progress" if n == 0 else "",
            answers_nonce=said.nonce,
            answers_identity=wire.identity_of(said),
        )
        assignments.append(wire.encode_assignment(answer))
    return subscriptions, assignments


def test_a_thousand_members_with_ten_tasks_each_fit_into_400_kb(record_property):
    """The group's state is one record of at most 1 MB; over it no SyncGroup ever succeeds."""
    subscriptions, assignments = big_group(1_000, 10)
    total = sum(map(len, subscriptions)) + sum(map(len, assignments))
    sizes = [len(s) + len(a) for s, a in zip(subscriptions, assignments, strict=True)]
    largest = max(sizes[1:])  # the first one leads, and says so to people
    print(f"1,000 members x 10 tasks: {total:,} bytes, at most {largest} a member")
    record_property("metadata_bytes", total)
    assert total <= 400_000
    assert largest <= 400


HEAD = b"\x00\x00\x00\x01\x00\x00\x00\x01"
PLAIN = Subscription("i", "n", 0, 1.0, 1, (b"12345678",), copies={TaskId(0, 1): Copy(Role.ACTIVE)})


def subscription_with(version=1, **fields):
    record = wire._subscription_record(PLAIN, version)
    return packed(wire._pack(wire_schemas.SUBSCRIPTIONS[version], {**record, **fields}), version)


def copies_with(version=1, **fields):
    (copies,) = wire._subscription_record(PLAIN, version)["copies"]
    return subscription_with(version, copies=[{**copies, **fields}])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes are too few"),
        (b"\x00" * 8 + b"x", "versions 0 and 0 cannot be"),
        (b"\x00\x00\x00\x02\x00\x00\x00\x01x", "versions 2 and 1 cannot be"),
        (HEAD, "cut off"),
        (HEAD + b"\xff\xff\xff", "cannot be unpacked"),
        (packed(b"\x02"), "no record"),
        (subscription_with(subtopologies=b"12345"), "5 bytes of hashes"),
        (subscription_with(instance=b""), "an id of unknown form"),
        (subscription_with(instance=b"\x01short"), "does not fit"),
        (subscription_with(instance=b"\x00\xff\xfe"), "does not fit"),
        (copies_with(role=-1), "role -1"),
        (copies_with(role=6), "does not fit"),
        (copies_with(lags=[1, 2]), "does not fit"),
        (copies_with(6, tasks=[0, 1]), "0 is not from 1"),
        (copies_with(6, tasks=[1, -1]), "do not rise"),
        (copies_with(6, tasks=[1, 5, -2]), "do not rise"),
    ],
)
def test_bytes_that_are_no_subscription_are_refused_with_the_reason(data, message):
    with pytest.raises(wire.WireError, match=message):
        wire.decode_subscription(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host-1",
        "2d9dde6c-bb5c-4fd7-8ba6-1bb3d1cd09e0",
        "a-2d9dde6c-bb5c-4fd7-8ba6-1bb3d1cd09e0",
        "2D9DDE6C-BB5C-4FD7-8BA6-1BB3D1CD09E0",
        "x" * 36,
        "{2d9dde6cbb5c4fd78ba61bb3d1cd09e0}xx",
    ],
)
def test_an_id_is_packed_by_its_uuid_only_if_it_can_be_read_back(text):
    said = Subscription(text, "n", 0, 1.0, 1, ())
    assert wire.decode_subscription(wire.encode_subscription(said)).instance == text
    assert len(wire._pack_id("host-" + str(uuid.UUID(int=7)))) == 1 + 16 + 5
