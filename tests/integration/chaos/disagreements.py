"""Histories in which positions, logs, folders and topology come to disagree.

A ``World`` is one application of two instances on a broker of its own. Each round runs it, ends it,
damages something while it is down, and starts it again. The counts must then be exact, or an
instance must have ended with an error that names the disagreement; the operator's answer to that
error (``state.mismatch.policy=continue``, else ``streamlet reset``) must make them exact.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from confluent_kafka.admin import AdminClient

from streamlet.admin.window import describe
from streamlet.broker.server import KafkaBroker
from streamlet.coordinator.messages import OffsetCommit, OffsetCommitAnswer
from streamlet.coordinator.transport import Transport
from streamlet.errors import NoSuchGroupError
from streamlet.kafka.ports import NewTopic
from streamlet.types import TaskId, TopicPartition
from tests.integration.chaos.checks import counts_of
from tests.integration.chaos.states import Changelogs, Copy, assert_agrees, readable_copies
from tests.integration.chaos.support import PARTITIONS, Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load, read_all

#: Options of the answer to a refusal.
CONTINUE = ("--set", "state.mismatch.policy=continue")
#: What a refusal says, so that its reader knows which disagreement it is and what to do.
NAMED = ("state.mismatch.policy", "the topology changed under its state", "streamlet reset")
KEYS = 60
NAMES = ("a", "b")


@attrs.frozen
class Disagreement:
    """One kind of fault.

    ``told``: the application must refuse to start after it. ``lost``: state or positions are gone
    for good, so that only a reset makes the counts exact again.
    """

    name: str
    make: Callable[[World], None]
    told: bool = False
    lost: bool = False


class World:
    """The application, its broker, and the counts that its state must hold.

    Args:
        broker: may be killed and restarted, and its logs cut.
        folder: for states and logs.
        dice: decides everything.
    """

    def __init__(self, broker: KafkaBroker, folder: Path, dice: random.Random) -> None:
        self.broker, self.dice, self.folder = broker, dice, folder
        self.cluster = Cluster(broker.bootstrap_servers, folder, "plain")
        self.input = self.cluster.topic("in")
        self.changelog = self.cluster.topic("counts-changelog")
        front = [self.cluster.topic("front"), self.cluster.topic("front-out")]
        self.cluster.admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in front])
        self.states = {name: folder / f"state-{name}" for name in NAMES}
        self.transport = Transport(broker.bootstrap_servers, client_id="disagreements")
        self.true: Counter[str] = Counter()
        self.told: Counter[str] = Counter()  # refusals, by what names them
        self.resets = 0
        self.running: list[Instance] = []
        self._sent = 0

    # Running.

    def send(self, count: int) -> None:
        """Put records into the input that are to be counted."""
        self._sent += 1
        load = Load(self.cluster.servers, self.input, keys=KEYS, seed=self._sent)
        load.send(count)
        self.true += load.finish()

    def start(self, *more: str, shape: str | None = None) -> None:
        """Start both instances on their folders."""
        self.running = []
        for name in NAMES:
            instance = self.cluster.instance(name, shape=shape, more=more)
            instance.state = self.states[name]
            self.running.append(instance.start())

    def await_both(self) -> None:
        """Wait until both instances own tasks, so that both folders hold state."""

        def both() -> bool:
            owners = self.cluster.owners().values()
            return {owner.rpartition("-")[0][:1] for owner in owners} == set(NAMES)

        assert self._await(both, "both own tasks")

    def stop(self, *, kill: bool) -> None:
        """End both instances, and wait until the group has no member."""
        for instance in self.running:
            if kill:
                instance.kill()
            elif self._code(instance) is None:
                assert instance.stop() == 0, instance.log()
        self.running = []
        self._await_empty()

    def refused(self) -> str | None:
        """What an instance said that ended by itself; None as long as none did."""
        for instance in self.running:
            if self._code(instance) is not None:
                log = instance.log()
                assert any(text in log for text in NAMED), f"no disagreement is named:\n{log}"
                assert self._code(instance) not in (None, 0), log
                return log
        return None

    def goes_on(self, *more: str, shape: str | None = None) -> bool:
        """Start both and have them count more; False if one refuses, and then none runs."""
        before = self.cluster.owners()
        self.start(*more, shape=shape)

        def claimed() -> bool:
            owners = self.cluster.owners()
            new = [t for t, owner in owners.items() if before.get(t) != owner]
            return len(new) == len(self.cluster.tasks)

        if self._await(claimed, "every task is claimed"):
            self.send(self.dice.randint(50, 400))
            if self._await(self._settled, "everything is counted"):
                return True
        log = self.refused()
        assert log is not None
        self.told[self._refusal(log)] += 1
        for instance in self.running:
            if self._code(instance) is None:
                instance.kill()
        self.running = []
        self._await_empty()
        return False

    def recover(self, faults: list[Disagreement]) -> None:
        """Start, answer a refusal as an operator would, and compare the counts in the end."""
        names = [fault.name for fault in faults]
        if self.goes_on():
            silent = f"{names}: not a word of it\n{self.cluster.logs()}"
            assert not any(fault.told for fault in faults), silent
        elif any(fault.lost for fault in faults) or not self.goes_on(*CONTINUE):
            self.reset()
            assert self.goes_on(), self.cluster.logs()
        self.stop(kill=False)
        self.compare(names)

    def compare(self, faults: list[str]) -> None:
        """Copies as of the commit hold the true counts, and agree with their changelogs.

        Every task has one. Other copies, which no task has opened since a fault, may hold anything.
        """
        current: dict[TaskId, Copy] = {}
        changelogs = Changelogs(self.cluster)
        committed = self.cluster.committed()
        for name, state in self.states.items():
            for copy in readable_copies(self.cluster, state, self.folder / f"copy-{name}"):
                metadata = self.cluster.of_task(copy.task, committed).metadata
                if metadata is not None and metadata.state == copy.state:
                    assert_agrees(self.cluster, copy, changelogs)
                    current[copy.task] = copy
        assert sorted(current) == list(self.cluster.tasks), self.cluster.logs()
        found = counts_of(current, "counts")
        wrong = {k: (found.get(k, 0), n) for k, n in self.true.items() if found.get(k, 0) != n}
        assert found == self.true, (
            f"after {faults}: {sum(found.values())} for {sum(self.true.values())}, "
            f"(found, true): {dict(list(wrong.items())[:5])}\n{self.cluster.logs()}"
        )

    def reset(self) -> None:
        """Begin anew with what the input holds now."""
        command = [sys.executable, "-m", "streamlet", "reset", self.cluster.name, "--yes"]
        command += ["--to", "earliest", "--bootstrap-servers", self.cluster.servers]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stdout + done.stderr
        self.resets += 1
        records = read_all(self.cluster.servers, self.input, range(PARTITIONS))
        self.true = Counter(record.key.decode() for record in records)

    # Helpers of faults.

    def partition(self, topic: str) -> TopicPartition:
        """A partition of a topic that holds records, at random."""
        ends = self.cluster.admin.end_offsets(self.cluster.partitions(topic))
        starts = self.cluster.admin.start_offsets(self.cluster.partitions(topic))
        return self.dice.choice([tp for tp, end in sorted(ends.items()) if end > starts[tp] + 4])

    def commit(self, positions: dict[TopicPartition, tuple[int, str]]) -> None:
        """Set positions as a tool does, once a broker that came back knows of no member."""
        request = OffsetCommit(self.cluster.name, -1, "", None, positions)

        def taken() -> bool:
            answer = self.transport.send(request, "main", 10_000).result()
            assert isinstance(answer, OffsetCommitAnswer)
            assert set(answer.errors.values()) <= {0, UNKNOWN_MEMBER_ID}, answer
            return UNKNOWN_MEMBER_ID not in answer.errors.values()

        wait_for(taken, "the positions are set")

    def cut_tail(self, topic: str) -> None:
        """Have the broker lose the end of one partition's log, as in a power failure."""
        tp = self.partition(topic)
        self.broker.kill()
        logs = self.broker.data_dir / "logs"
        log = max((logs / f"{tp.topic}-{tp.partition}").glob("*.log"))
        with log.open("r+b") as file:
            file.truncate(log.stat().st_size - 10)
        for path in log.parent.glob("*"):
            if path.suffix in (".index", ".timeindex", ".snapshot"):
                path.unlink()
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            (logs / name).unlink(missing_ok=True)
        (logs / ".kafka_cleanshutdown").unlink(missing_ok=True)
        self.broker.start()

    def database(self) -> Path:
        """The database of a task in one of the folders, at random."""
        found = [db for s in self.states.values() for db in sorted(s.glob("*/*_*/db"))]
        return self.dice.choice([db for db in found if any(db.glob("*.sst"))] or found)

    # Inside.

    def _await(self, condition: Callable[[], bool], what: str) -> bool:
        """Whether it came true; False if an instance ended by itself meanwhile."""
        ended = wait_for(
            lambda: ["refused"] if self.refused() else ["true"] if condition() else [],
            lambda: f"{what}\n{self.cluster.logs()}",
        )
        return ended == ["true"]

    def _settled(self) -> bool:
        found = self.cluster.committed()
        ends = self.cluster.admin.end_offsets(self.cluster.inputs)
        return all(found[tp].offset == end for tp, end in ends.items())

    def _await_empty(self) -> None:
        def empty() -> bool:
            try:
                return not describe(self.transport, self.cluster.name).described.members
            except NoSuchGroupError:
                return True

        wait_for(empty, "the group is empty")

    @staticmethod
    def _code(instance: Instance) -> int | None:
        assert instance.process is not None
        return instance.process.poll()

    @staticmethod
    def _refusal(log: str) -> str:
        return next(text for text in NAMED if text in log)

    def end(self) -> None:
        """Kill what is left."""
        self.cluster.end()
        self.transport.close()


# Faults; each happens while no instance runs.


def delete_positions(world: World) -> None:
    """The group's offsets are deleted, as they are when they expire."""
    admin = AdminClient({"bootstrap.servers": world.cluster.servers})
    for future in admin.delete_consumer_groups([world.cluster.name]).values():
        future.result(300)


def set_positions(world: World) -> None:
    """A tool sets one position back, without metadata."""
    tp = world.partition(world.input)
    world.commit({tp: (world.cluster.committed()[tp].offset // 2, "")})


def delete_changelog(world: World) -> None:
    """The changelog is deleted; each folder's state is what remains."""
    world.cluster.admin.delete_topics([world.changelog])
    wait_for(lambda: world.changelog not in world.cluster.admin.topics(), "the changelog is gone")


def lose_state_and_changelog(world: World) -> None:
    """The changelog is deleted, and no folder is left."""
    delete_changelog(world)
    lose_folders(world)


def lose_folders(world: World) -> None:
    """Both hosts are new."""
    for state in world.states.values():
        shutil.rmtree(state, ignore_errors=True)


def swap_hosts(world: World) -> None:
    """Each instance comes up on the other's folder."""
    one, other = world.states.values()
    world.states = dict(zip(NAMES, (other, one), strict=True))


def swap_tasks(world: World) -> None:
    """Two task folders of one host change names."""
    base = world.database().parent.parent
    folders = sorted(base.glob("0_*"))
    if len(folders) > 1:
        one, other = world.dice.sample(folders, 2)
        aside = base / "aside"
        one.rename(aside)
        other.rename(one)
        aside.rename(other)
    else:
        folders[0].rename(base / f"0_{(int(folders[0].name[2:]) + 1) % PARTITIONS}")


def restore_backup(world: World) -> None:
    """A folder of an earlier time takes the place of the present one."""
    name = world.dice.choice(NAMES)
    backup = world.folder / f"backup-{name}"
    if backup.exists():
        shutil.rmtree(world.states[name], ignore_errors=True)
        shutil.copytree(backup, world.states[name])
    for name, state in world.states.items():
        if state.exists():
            shutil.rmtree(world.folder / f"backup-{name}", ignore_errors=True)
            shutil.copytree(state, world.folder / f"backup-{name}")


def flip_bits(world: World) -> None:
    """Some bits of a database's files change."""
    files = [f for f in sorted(world.database().glob("*")) if f.stat().st_size]
    for file in world.dice.sample(files, min(3, len(files))):
        data = bytearray(file.read_bytes())
        for _ in range(4):
            data[world.dice.randrange(len(data))] ^= 1 << world.dice.randrange(8)
        file.write_bytes(bytes(data))


def truncate_files(world: World) -> None:
    """Some files of a database end too early."""
    files = [f for f in sorted(world.database().glob("*")) if f.stat().st_size]
    for file in world.dice.sample(files, min(2, len(files))):
        file.write_bytes(file.read_bytes()[: world.dice.randrange(file.stat().st_size)])


def rename_store(world: World) -> None:
    """A version without the store is tried on the folders, and is refused."""
    assert not world.goes_on(shape="renamed"), "a store's contents have no owner"


def retype_store(world: World) -> None:
    """A version whose store holds another type is tried on the folders, and is refused."""
    assert not world.goes_on(shape="retyped"), "a store holds another type"


def roll_forward(world: World) -> None:
    """A version with a new subtopology in front counts for a while."""
    if world.goes_on(shape="fronted"):
        world.stop(kill=world.dice.random() < 0.5)


def cut_input(world: World) -> None:
    """The broker loses the tail of an input partition that was counted."""
    world.cut_tail(world.input)


def cut_changelog(world: World) -> None:
    """The broker loses the tail of a changelog partition."""
    world.cut_tail(world.changelog)


KINDS = (
    Disagreement("positions deleted", delete_positions, told=True),
    Disagreement("position set by a tool", set_positions, told=True),
    Disagreement("changelog deleted", delete_changelog),
    Disagreement("changelog and folders deleted", lose_state_and_changelog, True, True),
    Disagreement("folders lost", lose_folders),
    Disagreement("folders of hosts swapped", swap_hosts),
    Disagreement("folders of tasks swapped", swap_tasks),
    Disagreement("folder outdated", restore_backup),
    Disagreement("bits flipped", flip_bits),
    Disagreement("files truncated", truncate_files),
    Disagreement("store renamed", rename_store),
    Disagreement("store retyped", retype_store),
    Disagreement("subtopology in front", roll_forward),
    Disagreement("input's tail lost", cut_input, told=True),
    Disagreement("changelog's tail lost", cut_changelog),
)


#: Kafka's error code.
UNKNOWN_MEMBER_ID = 25

#: Faults that run another version of the application.
VERSIONS = (rename_store, retype_store, roll_forward)


def random_rounds(dice: random.Random, rounds: int) -> list[list[Disagreement]]:
    """The faults of each round: every kind once, in random order and company, then more."""
    if rounds < 1:
        pytest.fail("at least one round")
    kinds = dice.sample(KINDS, len(KINDS))
    found: list[list[Disagreement]] = [[] for _ in range(rounds)]
    for at, kind in enumerate(kinds):
        found[at % rounds].append(kind)
    # Another version is tried before anything is damaged, so that it meets a whole state.
    return [sorted(faults, key=lambda fault: fault.make not in VERSIONS) for faults in found]
