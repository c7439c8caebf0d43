"""Settings of RocksDB that a store has of its own: checked, heeded, and free to change."""

from __future__ import annotations

from pathlib import Path

import pytest

import streamlet as sl
from streamlet.errors import TopologyError
from streamlet.state.backing import Columns
from streamlet.state.rocks_choice import RocksChoice
from streamlet.state.rocksdb import RocksEngine

KEYS = [b"%05d" % n for n in range(5_000)]
VALUE = b"the same words again and again " * 8


def rows(store: str) -> Columns:
    return Columns(store, KEYS, [VALUE] * len(KEYS))


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.sst"))


@pytest.mark.parametrize("bulk", [False, True])
def test_a_store_is_compressed_as_it_says_and_read_under_any_choice(
    tmp_path: Path, bulk: bool
) -> None:
    sizes = {}
    for compression in ("none", "zstd"):
        folder = tmp_path / compression
        engine = RocksEngine(folder, {"words": RocksChoice(compression=compression)})
        engine.use(["words"], b"")
        if bulk:
            engine.bulk(rows("words"))
        else:
            engine.write([rows("words")], b"")
        engine.close()
        sizes[compression] = size_of(folder)
    assert sizes["zstd"] * 4 < sizes["none"]
    other = RocksChoice("snappy", block_size=64 << 10, bloom_bits=0, write_buffer_size=1 << 20)
    for compression in sizes:
        engine = RocksEngine(tmp_path / compression, {"words": other})
        engine.use(["words"], b"")
        assert engine.backing("words").get_many(KEYS[::500]) == [VALUE] * 10
        engine.close()


def test_the_choice_of_a_user_reaches_the_store() -> None:
    app = sl.App("words")
    own = {"compression": "zstd", "block.size": "16 KiB", "bloom.bits": 0}
    (
        app.stream("lines", key=str, value=str)
        .group_by_key()
        .count(store=sl.Materialized("counts", rocksdb=own))
        .to_stream()
        .to("counts")
    )
    [part] = app.topology().subtopologies
    [spec] = part.stores
    assert spec.rocks == RocksChoice("zstd", block_size=16 << 10, bloom_bits=0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"compresion": "zstd"}, "no setting 'compresion'; there are: compression, block.size"),
        ({"compression": "brotli"}, "compression = 'brotli': expected"),
        ({"block.size": "1 B"}, "block.size = 1: expected 1 KiB to 1 GiB"),
        ({"write.buffer.size": "2 GiB"}, "expected 1 KiB to 1 GiB"),
        ({"bloom.bits": 33}, "bloom.bits = 33: expected at most 32"),
        ({"bloom.bits": "many"}, "bloom.bits = 'many': expected"),
        ({7: 1}, "no setting 7"),
        ("zstd", "expects a dict"),
    ],
)
def test_a_wrong_choice_is_refused_with_the_store_it_is_of(given: object, said: str) -> None:
    with pytest.raises(TopologyError) as refused:
        sl.Materialized("counts", rocksdb=given)  # type: ignore[arg-type]
    assert str(refused.value).startswith(("store counts: rocksdb: ", "Materialized(rocksdb=) "))
    assert said in str(refused.value)


def test_a_store_in_memory_has_no_choice_of_files() -> None:
    with pytest.raises(TopologyError, match="store counts: rocksdb= is for stores on disk"):
        sl.Materialized("counts", persistent=False, rocksdb={"compression": "zstd"})


def test_a_new_database_has_its_stores_at_once_and_an_old_one_behind_its_meta(
    tmp_path: Path,
) -> None:
    engine = RocksEngine(tmp_path / "db", {"a": None})
    assert engine.stores == {"a"}
    engine.use(["a"], b"first")
    engine.close()
    again = RocksEngine(tmp_path / "db", {"a": None, "b": None})
    assert again.stores == {"a"}
    assert again.read_meta() == b"first"
    again.use(["a", "b"], b"second")
    assert again.stores == {"a", "b"}
    again.wipe()
    assert again.stores == {"a", "b"}
    assert again.read_meta() is None
    again.close()
