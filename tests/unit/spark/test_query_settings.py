"""Settings that a query has for itself leave those of its session as they were."""

from __future__ import annotations

from typing import Any

import pytest

from streamlet.spark import query_settings

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


class Session:
    """A session's settings, as PySpark's ``spark.conf`` has them."""

    def __init__(self, **given: str) -> None:
        self.now = dict(given)
        self.conf: Any = self

    def get(self, key: str, default: str | None) -> str | None:
        return self.now.get(key, default)

    def set(self, key: str, value: str) -> None:
        self.now[key] = value

    def unset(self, key: str) -> None:
        del self.now[key]


def test_a_session_has_its_own_settings_again_when_a_query_has_started() -> None:
    spark: Any = Session(kept="old")
    with query_settings.settings(spark, {"kept": "new", "added": "1"}):
        assert spark.now == {"kept": "new", "added": "1"}
    assert spark.now == {"kept": "old"}


def test_a_query_that_does_not_start_leaves_the_session_as_it_was() -> None:
    spark: Any = Session()
    with (
        pytest.raises(ValueError, match="no start"),
        query_settings.settings(spark, {"added": "1"}),
    ):
        raise ValueError("no start")
    assert spark.now == {}


def test_files_of_a_local_checkpoint_are_written_as_the_session_says_if_it_does() -> None:
    spark: Any = Session()
    assert query_settings.local_files(spark)[MANAGER].endswith(
        "FileSystemBasedCheckpointFileManager"
    )
    chosen: Any = Session()
    chosen.set(MANAGER, "their.own")
    assert query_settings.local_files(chosen) == {}
