"""Committed positions and logs that the world changed behind an application's back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from streamlet.coordinator.messages import OffsetCommit, OffsetCommitAnswer
from streamlet.testing import KafkaBroker
from streamlet.types import TopicPartition
from tests.integration.chaos.checks import assert_counts_exact, contents, counts_of
from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

CONTINUE = ["--set", "state.mismatch.policy=continue"]
RESET = ["--set", "state.mismatch.policy=reset"]
#: What each refusal ends with.
CHOICES = ("state.mismatch.policy=continue", "state.mismatch.policy=reset", "streamlet reset")


def counted(cluster: Cluster, load: Load, instance: Instance, count: int) -> None:
    """Let an instance count so many more records and stop."""
    load.send(count)
    load.flush()
    instance.start()
    cluster.await_settled()
    assert instance.stop() == 0, instance.log()


def assert_refused(instance: Instance, *words: str) -> None:
    """It does not begin, and says why and what may be done."""
    assert instance.start().wait() == 5, instance.log()
    for word in (*words, *CHOICES):
        assert word in instance.log()


def assert_goes_on_exactly(cluster: Cluster, load: Load, instance: Instance) -> None:
    """It counts what comes; so does a host with an empty disk after it."""
    counted(cluster, load, instance, 500)
    assert_counts_exact(cluster, contents(cluster, [instance]), load.produced)
    other = cluster.instance("other")
    counted(cluster, load, other, 100)
    assert_counts_exact(cluster, contents(cluster, [other]), load.produced)


def set_positions(cluster: Cluster, positions: Mapping[TopicPartition, tuple[int, str]]) -> None:
    """Commit as a tool does while no instance runs."""

    def done() -> bool:
        request = OffsetCommit(cluster.name, -1, "", None, dict(positions))
        answer = cluster.transport.send(request, "main", 10_000).result()
        assert isinstance(answer, OffsetCommitAnswer)
        return not any(answer.errors.values())

    wait_for(done, "the coordinator takes the positions")


def delete_group(cluster: Cluster) -> None:
    """Have the coordinator forget every committed position."""

    def done() -> bool:
        admin = AdminClient({"bootstrap.servers": cluster.servers})
        (future,) = admin.delete_consumer_groups([cluster.name]).values()
        return future.exception(30) is None

    wait_for(done, "the group is deleted")
    wait_for(lambda: {one.offset for one in cluster.committed().values()} == {-1}, "it is gone")


@pytest.mark.parametrize("disk", ["of the last owner", "empty"])
def test_lost_positions_are_found_again_beside_the_state(
    make_cluster: Callable[..., Cluster], disk: str
) -> None:
    """Offsets expire a week after an application was stopped, or are deleted by mistake."""
    cluster = make_cluster(partitions=2)
    load = Load(cluster.servers, cluster.topic("in"))
    first = cluster.instance("first")
    counted(cluster, load, first, 1_000)
    delete_group(cluster)
    refused = cluster.instance("refused", state_of=first if disk != "empty" else None)
    assert_refused(refused, f"the committed positions of {cluster.topic('in')}-", "are lost")
    assert {one.offset for one in cluster.committed().values()} == {-1}, "nothing was committed"
    again = cluster.instance("again", state_of=refused, more=CONTINUE)
    assert_goes_on_exactly(cluster, load, again)
    assert "goes on with commit (1," in again.log()


@pytest.mark.parametrize("how", ["without metadata", "from a backup"])
def test_positions_that_a_tool_set_do_not_count_records_again(
    make_cluster: Callable[..., Cluster], how: str
) -> None:
    cluster = make_cluster(partitions=2)
    load = Load(cluster.servers, cluster.topic("in"))
    instance = cluster.instance("a")
    counted(cluster, load, instance, 300)
    backup = cluster.committed()
    counted(cluster, load, instance, 300)
    counted(cluster, load, instance, 300)
    texts = {tp: one.metadata.to_text() for tp, one in backup.items() if one.metadata is not None}
    set_positions(
        cluster,
        {
            tp: (one.offset, texts[tp] if how == "from a backup" else "")
            for tp, one in backup.items()
        },
    )
    said = "positions were set back" if how == "from a backup" else "were committed by another tool"
    assert_refused(instance, said)
    again = cluster.instance("again", state_of=instance, more=CONTINUE)
    assert_goes_on_exactly(cluster, load, again)


def test_positions_of_one_of_two_inputs_that_a_tool_set_are_noticed(
    make_cluster: Callable[..., Cluster],
) -> None:
    """The other one still bears the metadata of the state; an empty disk asks the changelog."""
    cluster = make_cluster("joined", partitions=1)
    names = Load(cluster.servers, cluster.topic("names"), keys=20)
    load = Load(cluster.servers, cluster.topic("in"), keys=20)
    names.send(200)
    names.flush()
    instance = cluster.instance("a")
    counted(cluster, load, instance, 300)
    set_positions(cluster, {TopicPartition(cluster.topic("in"), 0): (100, "")})
    assert_refused(cluster.instance("b"), f"{cluster.topic('in')}-0 at 100, not 300")
    assert_refused(instance, f"{cluster.topic('in')}-0 at 100, not 300")
    again = cluster.instance("c", more=CONTINUE)
    counted(cluster, load, again, 100)
    assert cluster.committed()[TopicPartition(cluster.topic("in"), 0)].offset == 400
    assert "goes on with commit" in again.log()


def test_a_reset_of_what_disagrees_begins_anew(make_cluster: Callable[..., Cluster]) -> None:
    """The task's state is dropped, in its changelog too, and the input counted from its start."""
    cluster = make_cluster("joined", partitions=1)
    names = Load(cluster.servers, cluster.topic("names"), keys=20)
    load = Load(cluster.servers, cluster.topic("in"), keys=20)
    names.send(400)
    names.flush()
    first = cluster.instance("first")
    counted(cluster, load, first, 500)
    delete_group(cluster)
    again = cluster.instance("again", state_of=first, more=RESET)
    counted(cluster, load, again, 100)
    assert "task 0_0 is reset" in again.log()
    other = cluster.instance("other")
    counted(cluster, load, other, 100)
    counts = counts_of(contents(cluster, [other]), "counts")
    assert sum(counts.values()) == 700
    assert counts == load.produced


def test_a_changelog_that_was_deleted_is_not_believed_by_an_empty_disk(
    make_cluster: Callable[..., Cluster],
) -> None:
    """It is asked for state that others have: here the disk of an instance that starts later."""
    cluster = make_cluster(partitions=2)
    load = Load(cluster.servers, cluster.topic("in"))
    first = cluster.instance("first")
    counted(cluster, load, first, 1_000)
    changelog = cluster.topic("counts-changelog")
    cluster.admin.delete_topics([changelog])
    wait_for(lambda: changelog not in cluster.admin.topics(), "the changelog is gone")
    empty = cluster.instance("empty")
    assert_refused(empty, f"{changelog}-", "ends at 0, the commit was made when it ended at")
    assert "is given back, another member may have its state" in empty.log()
    refused = cluster.instance("refused", more=CONTINUE)
    assert_refused(refused, "To continue is not possible")
    assert_goes_on_exactly(cluster, load, first)


def cut(broker: KafkaBroker, topic: str, partitions: int) -> None:
    """Take the last records of a topic away, as a power failure does that hits all replicas."""
    broker.kill()
    logs = broker.data_dir / "logs"
    for partition in range(partitions):
        folder = logs / f"{topic}-{partition}"
        (log,) = folder.glob("*.log")
        with log.open("r+b") as file:
            file.truncate(log.stat().st_size - 40)
        for kind in ("index", "timeindex", "snapshot"):
            for file_ in folder.glob(f"*.{kind}"):
                file_.unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        Path(logs / name).unlink(missing_ok=True)
    Path(logs / ".kafka_cleanshutdown").unlink(missing_ok=True)
    broker.start()


@pytest.mark.parametrize("disk", ["of the last owner", "empty"])
def test_a_changelog_that_lost_its_end_costs_no_state(
    kafka_broker: KafkaBroker, make_cluster: Callable[..., Cluster], disk: str
) -> None:
    """State that equals the commit fills it again; an empty disk can go back to what it holds."""
    cluster = make_cluster(partitions=2)
    load = Load(cluster.servers, cluster.topic("in"))
    first = cluster.instance("first")
    counted(cluster, load, first, 1_000)
    counted(cluster, load, first, 20)
    cut(kafka_broker, cluster.topic("counts-changelog"), 2)
    if disk == "empty":
        assert_refused(cluster.instance("refused"), "the commit was made when it ended at")
        again = cluster.instance("again", more=CONTINUE)
    else:
        again = first
    assert_goes_on_exactly(cluster, load, again)
    if disk != "empty":
        assert "it is filled from the local state" in again.log()


def test_an_input_that_lost_its_end_is_not_counted_from_its_start(
    kafka_broker: KafkaBroker, make_cluster: Callable[..., Cluster]
) -> None:
    cluster = make_cluster(partitions=2)
    load = Load(cluster.servers, cluster.topic("in"))
    first = cluster.instance("first")
    counted(cluster, load, first, 1_000)
    counted(cluster, load, first, 20)
    cut(kafka_broker, cluster.topic("in"), 2)
    assert_refused(first, f"{cluster.topic('in')}-", "the topic lost records or was created again")
    again = cluster.instance("again", state_of=first, more=CONTINUE)
    again.start()  # before the topic has other records where the lost ones were
    cluster.await_settled()
    assert again.stop() == 0, again.log()
    assert "goes on at the ends of its inputs" in again.log()
    more = Load(cluster.servers, cluster.topic("in"))  # its records have the lost ones' offsets
    more.produced.update(load.produced)
    assert_goes_on_exactly(cluster, more, again)
