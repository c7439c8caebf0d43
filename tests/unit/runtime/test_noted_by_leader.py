"""Notes of the leader in the control topic: types of changelogs, and the topology."""

from __future__ import annotations

import attrs

from streamlet.control.values import ChangelogTypes, Description
from streamlet.kafka.ports import NewTopic
from streamlet.runtime.control_link import TYPES_MS
from streamlet.testing.memory_ports import MemoryAdmin
from tests.unit.runtime.test_control_link import APP, COUNTS, ME, Bench, group

DESCRIBED = Description("h-0", "1.0", {"application": APP}, {"text": "Topologies:"})


def test_the_leader_notes_the_topology_that_the_group_runs() -> None:
    bench = Bench(description=DESCRIBED)
    bench.step()
    assert bench.view().description is None
    bench.link.planned(group(ME))
    bench.step()
    assert bench.view().description == DESCRIBED
    same = attrs.evolve(DESCRIBED, member="h-1")  # of another that led
    bench.others().write(same)
    bench.step()
    assert bench.view().description == same
    bench.others().write(attrs.evolve(same, topology={"application": "former"}))
    bench.step()
    bench.step()
    assert bench.view().description == DESCRIBED


def test_the_leader_notes_the_types_of_changelogs_once_and_anew_if_one_is_made_again() -> None:
    admin = MemoryAdmin((bench := Bench()).log)

    def made() -> ChangelogTypes:
        admin.delete_topics([COUNTS.changelog])
        admin.create_topics([NewTopic(COUNTS.changelog, 1)])
        return attrs.evolve(COUNTS, topic_id=admin.topic_ids([COUNTS.changelog])[COUNTS.changelog])

    first = made()
    bench.step()
    assert bench.view().types == {}
    bench.link.planned(group(ME))
    bench.step()
    assert bench.view().types == {first.changelog: first}
    other = attrs.evolve(first, types=("str", "str"))
    bench.others().write(other)
    bench.step()
    bench.step(TYPES_MS)
    assert bench.view().types == {first.changelog: other}  # it may not be ours to correct
    again = made()
    bench.step(TYPES_MS)
    assert bench.view().types == {first.changelog: again}
