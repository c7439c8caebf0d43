"""Breaks each rule of held edges in a copy of the package, and plays the histories of the code.

``python -m tests.simulation.held.mutations [NAME…]`` prints which history finds each mutation.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from streamlet.processing.edges import held_run, undecided
from tests.simulation.held.code import CodeHistory, LossyCodeHistory, OrderedHistory
from tests.simulation.held.edge import EdgeHistory, OrderedEdgeHistory
from tests.simulation.held.writer import BOUND
from tests.simulation.histories import Played
from tests.simulation.mutation_list import Mutation
from tests.simulation.mutations import ROOT, mutated

WRITER = "processing/edges/held_writer.py"
READER = "processing/edges/held_reader.py"
LINE = "processing/edges/held_line.py"
RUN = "processing/edges/held_run.py"
RECORDS = "processing/edges/held_records.py"
COLUMNS = "processing/edges/held_columns.py"
KEYS = "processing/edges/writer_keys.py"
MARKS = "coordinator/commit_packing.py"
KINDS: tuple[Callable[[int], Played], ...] = (
    CodeHistory,
    OrderedHistory,
    LossyCodeHistory,
    EdgeHistory,
    OrderedEdgeHistory,
)
#: Histories of each kind, at most.
HISTORIES = 1_000

MUTATIONS = (
    Mutation(
        "before-the-claim",
        "writer 1",
        "records are written before the claim is accepted",
        WRITER,
        "return self._agreement.held and self._unopened",
        "return False",
    ),
    Mutation(
        "of-the-commit-under-way",
        "writer 2",
        "records behind a share bear its number",
        WRITER,
        "self._number, self._under_way = number + 1, True",
        "self._number, self._under_way = number, True",
    ),
    Mutation(
        "accepted-too-soon",
        "writer 2",
        "a record says that the commit before its own is accepted while that is under way",
        WRITER,
        "flags = UNDER_WAY if self._under_way else 0",
        "flags = 0",
    ),
    Mutation(
        "base-here-and-there",
        "writer 3",
        "a partition without records of a period does not hear of it",
        WRITER,
        "if known < (accepted if everywhere or known < 0 else min(last, accepted))",
        "if 0 <= known < (accepted if everywhere else min(last, accepted))",
    ),
    Mutation(
        "nothing-owed",
        "writer 4",
        "no marker tells that a commit was accepted",
        WRITER,
        "if known < (accepted if everywhere or known < 0 else min(last, accepted))",
        "if known < 0",
    ),
    Mutation(
        "unbounded",
        "writer 5",
        "a task goes on however much is undecided",
        WRITER,
        "return self.silent or self._changes or (self._form and self._bound.full)",
        "return self.silent or self._changes",
    ),
    Mutation(
        "zombies-count",
        "reader 1",
        "words of earlier periods are taken",
        LINE,
        "if head.period < self.period:",
        "if head.period < 0:",
    ),
    Mutation(
        "no-base",
        "reader 2",
        "what is held of an accepted commit is dropped when another period begins",
        LINE,
        "elif run.period == base[0] and run.number <= base[1]:",
        "elif False:",
    ),
    Mutation(
        "base-without-a-number",
        "reader 2",
        "all that is held is taken when another period begins",
        LINE,
        "elif run.period == base[0] and run.number <= base[1]:",
        "elif run.period == base[0]:",
    ),
    Mutation(
        "own-records-dropped",
        "reader 2",
        "a base drops the records of its own period that came before it",
        LINE,
        "if run.period >= head.period:",
        "if run.period > head.period:",
    ),
    Mutation(
        "period-without-a-base",
        "reader 3",
        "any record of a later period ends the earlier ones",
        LINE,
        "return head.marker or head.accepted > 0 or not (self.period or self.held)",
        "return True",
    ),
    Mutation(
        "applied-at-once",
        "reader 4",
        "records do not wait",
        LINE,
        "held[0].period == self.period and held[0].number <= self.accepted:",
        "held[0].period == self.period:",
    ),
    Mutation(
        "copies-of-one-poll",
        "reader 4",
        "records that came twice in one poll are not looked for",
        COLUMNS,
        "return not any(map(ge, values, islice(values, 1, None)))",
        "return True",
    ),
    Mutation(
        "copies-of-two-polls",
        "reader 4",
        "records that came again in a later poll are not looked for",
        RUN,
        "self.rising = self.rising and more.rising and self.last < more.first",
        "self.rising = self.rising and more.rising",
    ),
    Mutation(
        "repetitions-count",
        "reader 4",
        "a record that is there twice is taken twice",
        RUN,
        "if record not in met:",
        "if True:",
    ),
    Mutation(
        "sequences-alone",
        "reader 4",
        "what has the sequence of another record is taken for its repetition",
        RUN,
        "columns = run.split_sequences(), run.keys, run.values, run.timestamps",
        "columns = (run.split_sequences(),)",
    ),
    Mutation(
        "position-of-what-was-read",
        "reader 5",
        "the committed position is not that of the first record held",
        READER,
        "return min(found, default=self._read)",
        "return self._read",
    ),
    Mutation(
        "marks-forgotten",
        "reader 6",
        "what was applied behind the position is not known after a restart",
        READER,
        "HeldLine.of(mark, ordered=ordered)",
        "HeldLine(mark.period, ordered=ordered)",
    ),
    Mutation(
        "period-of-what-was-taken",
        "reader 6",
        "a mark has the period of what was taken and not processed",
        READER,
        "min(left.get(writer, _NOTHING), (one.period, one.accepted + 1))",
        "(one.period, one.accepted + 1)",
    ),
    Mutation(
        "mark-of-whole-commits",
        "reader 6",
        "what is read again of a commit that was processed in part counts as processed",
        MARKS,
        "return self.behind if ordered or self.number in (0, number) else 0",
        "return INT64_MAX if self.number in (0, number) else 0",
    ),
    Mutation(
        "read-again-without-the-first",
        "reader 6",
        "a repetition is read again without what it repeats",
        RUN,
        "run.again = first",
        "pass",
    ),
    Mutation(
        "anybody-signs",
        "reader 7",
        "a word counts whoever wrote it",
        KEYS,
        "return born < of_group or head.is_signed_with(known.found.key, base)",
        "return True",
    ),
    Mutation(
        "unknown-counts",
        "reader 7",
        "a word counts before the key of its writer is known",
        KEYS,
        "            self._wanted.add(head.writer)\n            return None\n",
        "            return True\n",
    ),
    Mutation(
        "any-answer-refutes",
        "reader 7",
        "an answer that may be of old proves that another wrote a word",
        KEYS,
        "known.asked_ms >= since_ms + STALE_MS",
        "True",
    ),
    Mutation(
        "plain-once-more",
        "reader 8",
        "no note tells which plain records were processed",
        READER,
        "plain = self._plain_behind if self._plain_behind > position else 0",
        "plain = 0",
    ),
    Mutation(
        "ended-commits-forgotten",
        "reader 6",
        "a reader that begins anew does not know which commits were over",
        READER,
        "WriterMark(period, number, told)",
        "WriterMark(period, number if beyond else 0, told)",
    ),
)


def run(mutation: Mutation, module: str) -> str:
    """The first history that goes wrong with this mutation, as the module has it; or empty."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "streamlet"
        skipped = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / "streamlet", package, ignore=skipped)
        (Path(folder) / "tests").symlink_to(ROOT / "tests")
        (package / mutation.file).write_text(mutated(mutation, package), "utf-8")
        done = subprocess.run(
            [sys.executable, "-m", module, "--play"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    return done.stdout.strip() or done.stderr.strip()[-200:]


def play() -> str:
    """Play the histories of the code in this process until one goes wrong."""
    undecided.MOST_RECORDS, held_run.MANY = BOUND - 1, 2
    logging.disable()
    for seed in range(HISTORIES):
        for kind in KINDS:
            try:
                verdict = kind(seed).run()
            except AssertionError as error:
                verdict = f"assertion: {error}"
            if verdict:
                return f"{getattr(kind, '__name__', kind)} {seed}: {verdict}"
    return ""


def command(module: str, mutations: Sequence[Mutation], play: Callable[[], str]) -> int:
    """Run the mutations of these names, all without any; the exit code is 0 if all were found."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("names", nargs="*", metavar="NAME", help="all without any")
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        print(play())
        return 0
    survivors = 0
    for mutation in mutations:
        if options.names and mutation.name not in options.names:
            continue
        found = run(mutation, module)
        survivors += not found
        print(f"{mutation.rule:9} {mutation.name:26} {found or 'SURVIVES'}", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(command("tests.simulation.held.mutations", MUTATIONS, play))
