"""A loaded application on stage: its load, its instances, and what it wrote in the end."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import attrs

from bench.broker import Topics, read_all
from bench.committed_reader import CommittedReader
from bench.handover_app import UPDATE, names
from bench.handover_gaps import Arrivals, Tally
from bench.handover_instances import Instances, wait_until
from bench.handover_load import BEAT_MS, keys_in_turn
from bench.processes import MeasurementError
from bench.rounds import tell
from bench.stalls import Stalls, watching

#: How long nothing happens before the load begins.
_SETTLE_S = 2.0
#: A reader of committed records that has had none for so long gets no more, s.
_SILENT_S = 60.0


@attrs.define
class Stage:
    """A loaded application with its first instances.

    ``reader``: of its output, where that is written by transactions.
    """

    bootstrap: str
    application: str
    instances: Instances
    load: subprocess.Popen[str]
    topics: Topics
    keys: int
    partitions: int
    stalls: Stalls
    reader: CommittedReader | None

    def outputs(self) -> int:
        """Records that were written; those of transactions count when the reader has them."""
        if self.reader is None:
            return self.topics.count(names(self.application)[1])
        return self.reader.records

    def finish(self) -> int:
        """End the load and wait until all of it was processed; records sent.

        What a reader of committed records does not get in a while is lost.
        """
        assert self.load.stdin is not None
        self.load.stdin.close()
        sent = int(_line(self.load)["sent"])
        reader = self.reader
        wait_until(
            lambda: self.outputs() >= sent or (reader is not None and reader.silent_s > _SILENT_S),
            f"{sent} outputs",
        )
        return sent

    def written(self, sent: int, read: Arrivals | None = None) -> tuple[Arrivals, Tally, str]:
        """The outputs with their times and writers, the counts, and the errors in them.

        ``read`` is told of the same records, each when the reader had it.
        """
        arrivals, tally = Arrivals(self.partitions), Tally()
        for batch in read_all(self.bootstrap, names(self.application)[1], self.partitions):
            for message in batch:
                writer, count, _ = UPDATE.unpack(message.value() or b"")
                partition = message.partition() or 0
                arrivals.tell(partition, writer, message.timestamp()[1])
                if read is not None and self.reader is not None:
                    at_us = self.reader.at_us(partition, message.offset() or 0)
                    if at_us is not None:
                        read.tell(partition, writer, at_us // 1_000)
                tally.tell(message.key() or b"", count)
        turns, rest = divmod(sent, self.keys)
        keys = keys_in_turn(self.keys, self.partitions)
        wrong = tally.finish({key: turns + (n < rest) for n, key in enumerate(keys)})
        if wrong:
            tell(wrong)
        return arrivals, tally, wrong


@contextmanager
def loaded(
    bootstrap: str,
    config: Mapping[str, str],
    rate: int,
    keys: int,
    *,
    partitions: int,
    instances: int = 1,
    beat_ms: int = BEAT_MS,
    static: bool = False,
    edge: str = "",
) -> Iterator[Stage]:
    """So many instances that share the tasks and have counted every key once, under load.

    ``static``: their members have static ids. ``edge``: what repartition topic they have. Where
    ``config`` has ``exactly_once``, the output is read meanwhile.
    """
    application = f"bench-handover-{uuid.uuid4().hex[:8]}"
    source, output = names(application)
    topics = Topics(bootstrap, partitions)
    topics.create(source)
    topics.create(output, {"message.timestamp.type": "LogAppendTime"})
    reading: AbstractContextManager[CommittedReader | None] = nullcontext()
    if config.get("processing.guarantee") == "exactly_once":
        reading = CommittedReader(bootstrap, output, partitions)
    with tempfile.TemporaryDirectory() as folder, watching() as stalls, reading as reader:
        tasks = 2 * partitions if edge else partitions
        more: dict[str, Any] = {"static": static, "edge": edge}
        all_of_them = Instances(bootstrap, application, Path(folder), tasks, config, **more)
        command = [sys.executable, "-m", "bench.handover_load", "--bootstrap", bootstrap]
        command += ["--topic", source, "--keys", str(keys), "--rate", str(rate)]
        command += ["--partitions", str(partitions), "--beat-ms", str(beat_ms)]
        load = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
        )
        stage = Stage(
            *(bootstrap, application, all_of_them, load, topics, keys, partitions, stalls),
            reader=reader,
        )
        try:
            for _ in range(instances):
                all_of_them.start()
            _line(load)
            _await_first_counts(stage)
            all_of_them.await_balance(_SETTLE_S)
            assert load.stdin is not None
            load.stdin.write("go\n")
            load.stdin.flush()
            yield stage
        finally:
            all_of_them.end()
            load.kill()
            load.wait()
            topics.delete(lambda name: name.startswith(application))


def _await_first_counts(stage: Stage) -> None:
    what = "the first count of every key"

    def written() -> bool:
        stage.instances.check(f"an instance ended before {what}")
        return stage.outputs() >= stage.keys

    wait_until(written, what)


def _line(load: subprocess.Popen[str]) -> dict[str, Any]:
    assert load.stdout is not None
    line = load.stdout.readline()
    if not line:
        raise MeasurementError("the load ended by itself")
    return dict(json.loads(line))
