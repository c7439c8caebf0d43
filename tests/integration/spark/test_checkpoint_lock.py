"""Two queries on one checkpoint: the second is refused before it writes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import streamlet.spark
from streamlet.errors import StateLockedError
from streamlet.spark import checkpoint_lock
from streamlet.spark.checkpoint_lock import LOCK_FILE
from streamlet.spark.hadoop_file import HadoopFile
from streamlet.spark.lease import Lease
from streamlet.state.directory import FolderLock
from tests.integration.spark import words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.integration]

#: Longer than a query takes from its first call to the lock.
LATE_S = 2.0


def test_a_query_of_a_program_has_its_checkpoint_to_itself(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused while it runs, also under another form of its name; free when it has ended.

    Even if the lock is released late, as by a thread that waits for a processor.
    """
    words.create_topics(bootstrap_servers)
    release = checkpoint_lock._release

    def late(lock: FolderLock | Lease) -> None:
        threading.Event().wait(LATE_S)
        release(lock)

    monkeypatch.setattr(checkpoint_lock, "_release", late)

    def start(checkpoint: Path | str, trigger: str = "1s") -> StreamingQuery:
        where = {"checkpoint": checkpoint, "bootstrap_servers": bootstrap_servers}
        return streamlet.spark.start(words.APP, spark, trigger=trigger, **where)

    try:
        first = start(tmp_path)
        assert first.name == "wordcount"
        for form in (tmp_path, f"file:{tmp_path}", f"file://{tmp_path}"):
            with pytest.raises(StateLockedError, match=r"the checkpoint in .* is held by process"):
                start(form)
        first.stop()
        assert start(f"file:{tmp_path}", "available-now").awaitTermination(300)
    finally:
        words.delete_topics(bootstrap_servers)


def test_a_lease_lies_on_any_file_system_of_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    file = HadoopFile.of(spark, str(tmp_path / "checkpoint"), LOCK_FILE)
    assert file.read() is None
    file.delete()
    lease = Lease(file, "checkpoint", lambda _: None, print)
    assert not file.create(b"another")
    with pytest.raises(StateLockedError, match="is held by process"):
        Lease(file, "checkpoint", lambda _: lease.renew(), print)
    lease.release()
    assert file.read() is None
