"""CSV files of a backfill: as RFC 4180 has them, and nothing that does not fit passes unseen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamlet.spark.backfill_files import DataFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = """id,größe,note
1,1.5,"a ""quoted"" word, and
a new line"
2,2.5,"back\\slash"
3,3.5,
"""
ROWS = [(1, 1.5, 'a "quoted" word, and\na new line'), (2, 2.5, "back\\slash"), (3, 3.5, None)]
SCHEMA = "id int, `größe` double, note string"


def test_csv_is_read_as_rfc_4180_has_it(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "a.csv").write_text(TEXT, "utf-8")
    for schema in (None, SCHEMA):
        files = DataFiles("csv", str(folder), schema=schema)
        assert [tuple(row) for row in files._read(spark).collect()] == ROWS
    query = DataFiles("csv", str(folder)).source(spark).frame.writeStream.format("memory")
    query.queryName("rows").trigger(availableNow=True).start().awaitTermination(60)
    assert [tuple(row) for row in spark.sql("select * from rows").collect()] == ROWS
    for wrong in ("größe,id,note\n9,9,a\n", "id,größe,note\n9,x,a\n"):
        (folder / "a.csv").write_text(wrong, "utf-8")
        with pytest.raises(Exception, match="FAILED_READ_FILE"):
            DataFiles("csv", str(folder), schema=SCHEMA)._read(spark).collect()
