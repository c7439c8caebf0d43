"""Runs a measured program once, on topics of its own that are deleted afterwards."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence

from bench.broker import PARTITIONS, Topics
from bench.processes import PYTHON, measure
from bench.rounds import Outcome

#: The changelog of a bare loop, beside its output.
CHANGELOG = {"changelog": {"cleanup.policy": "compact"}}
#: The arguments of ``bench.ours`` that make it the only worker of its group.
ALONE = ("--number", 0, "--members", 1)


def run_once(
    bootstrap: str,
    program: Sequence[str],
    options: Mapping[str, object],
    processes: Sequence[Sequence[object]],
    records: int,
    wrong: Callable[[str], str],
    *,
    topics: Mapping[str, dict[str, str]] | None = None,
    partitions: int = PARTITIONS,
    beside: int = PARTITIONS,
    launcher: Sequence[str] = PYTHON,
    environ: Mapping[str, str] | None = None,
) -> Outcome:
    """The measurement of a program, and the fault in what it wrote.

    Args:
        bootstrap: the broker.
        program: its name for the launcher, if it needs one, and the workload.
        options: of all its processes, besides the broker, the output and the folder for state.
        processes: further arguments of each of its processes, which run side by side.
        records: how many they read.
        wrong: the fault in the topic with its output, ``""``: none.
        topics: the settings of topics beside the output, by what is behind its name in theirs.
        partitions: of the output.
        beside: partitions of each of the other topics.
        launcher: the command that starts a program.
        environ: variables of the environment.
    """
    run = f"bench-run-{uuid.uuid4().hex[:8]}"
    state = tempfile.mkdtemp(prefix="streamlet-bench-")
    own = Topics(bootstrap, partitions)
    own.create(run)
    for name, config in (topics or {}).items():
        Topics(bootstrap, beside).create(f"{run}-{name}", config)
    given = {"bootstrap": bootstrap, "output": run, "state": state, **options}
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    try:
        commands = [[*program, *words, *map(str, more)] for more in processes]
        return Outcome(measure(commands, records, launcher, environ), wrong(run))
    finally:
        shutil.rmtree(state, ignore_errors=True)
        own.delete(lambda name: run in name)
