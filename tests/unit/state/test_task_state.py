"""What a task's state says of itself through commits, restores, crashes and damage."""

import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from streamlet.errors import (
    StateError,
    StateLockedError,
    StateMismatchError,
    TaskCorruptedError,
)
from streamlet.state.backing import Columns
from streamlet.state.directory import DATABASE
from streamlet.state.load import Loader
from streamlet.state.rocksdb import RocksEngine
from streamlet.state.rows import untimed
from streamlet.state.task_state import TaskState
from streamlet.types import NO_STATE, StateNumber
from tests.unit.state.support import Spec, changelog

CHANGELOGS = {"s": changelog("s"), "t": changelog("t")}


def open_state(folder: Path | None, *specs: Spec) -> TaskState:
    return TaskState(folder, specs or [Spec("s"), Spec("t")], 1 << 20, CHANGELOGS)


def commit(state: TaskState, number: int, position: int = 0, epoch: int = 1) -> dict[str, Columns]:
    drained = state.drain()
    state.write(drained, StateNumber(epoch, number), {changelog("s"): position})
    return drained.columns


def test_a_drain_holds_each_key_once_with_its_last_value() -> None:
    state = open_state(None)
    store = state.stores["s"]
    for i in range(3):
        store.put("a", i)
    store.put("b", None)
    drained = state.drain()
    assert list(drained.columns) == ["s"]
    assert drained.columns["s"].keys == [b"a", b"b"]
    assert drained.columns["s"].values == [bytes(8) + (2).to_bytes(8, "big"), None]
    assert len(drained) == 2


def test_only_the_set_drained_last_can_be_written() -> None:
    state = open_state(None)
    first = state.drain()
    with pytest.raises(AssertionError, match="drained twice"):
        state.drain()
    state.discard()
    state.drain()
    with pytest.raises(AssertionError, match="not the set"):
        state.write(first, StateNumber(1, 1), {})


def test_discarded_entries_are_gone_and_written_ones_are_not(tmp_path: Path) -> None:
    state = open_state(tmp_path)
    state.stores["s"].put("a", 1)
    commit(state, 1)
    state.stores["s"].put("a", 2)
    state.drain()
    state.stores["s"].put("b", 3)
    state.discard()
    assert list(state.stores["s"].range()) == [("a", 1)]
    assert not state.has_dirty()
    state.close()


def test_positions_of_stores_in_memory_are_not_written_down(tmp_path: Path) -> None:
    specs = [Spec("s"), Spec("t", persistent=False)]
    state = open_state(tmp_path, *specs)
    for name in "st":
        state.stores[name].put("a", 1)
    state.write(state.drain(), StateNumber(3, 1), {changelog("s"): 7, changelog("t"): 9})
    assert state.positions == {changelog("s"): 7, changelog("t"): 9}
    state.close()
    state = open_state(tmp_path, *specs)
    assert state.positions == {changelog("s"): 7}
    assert (state.stores["s"].get("a"), state.stores["t"].get("a")) == (1, None)
    state.close()


def test_skipped_keys_are_written_again_and_hold_the_position_back_until_then(
    tmp_path: Path,
) -> None:
    """N4, and a second crash before the rewrite."""
    state = open_state(tmp_path)
    for key in "ab":
        state.stores["s"].put(key, 1)
    commit(state, 1, position=2)
    state.load(Columns("s", [], []), changelog("s"), position=8, epoch=1)
    state.restored(StateNumber(1, 1), {"s": {b"a": 5, b"gone": 6}, "t": {}})
    state.close()
    state = open_state(tmp_path)
    assert state.positions == {changelog("s"): 5}
    state.restored(StateNumber(1, 1), {"s": {b"a": 5, b"gone": 6}})
    assert state.has_dirty()
    state.stores["s"].put("b", 2)
    columns = commit(state, 1, position=11, epoch=2)
    one, two = untimed([(1).to_bytes(8, "big"), (2).to_bytes(8, "big")])
    assert dict(zip(columns["s"].keys, columns["s"].values, strict=True)) == {
        b"b": two,
        b"a": one,
        b"gone": None,
    }
    assert not state.has_dirty()
    assert state.positions[changelog("s")] == 11
    state.close()
    state = open_state(tmp_path)
    assert state.positions == {changelog("s"): 11}
    assert state.drain().columns == {}
    state.close()


def test_a_key_to_be_written_again_that_changed_is_written_once() -> None:
    state = open_state(None)
    state.restored(NO_STATE, {"s": {b"a": 5}})
    state.stores["s"].put("a", 1)
    drained = state.drain()
    state.write_again("s", [b"late"])
    assert drained.columns["s"].keys == [b"a"]
    state.write(drained, StateNumber(1, 1), {})
    assert state.drain().columns["s"].keys == [b"late"], "came after that drain"


def test_a_large_load_and_a_small_one_end_up_the_same(tmp_path: Path) -> None:
    state = open_state(tmp_path)
    loader: Loader = state.loader("s")
    count = 30_000
    keys = [b"%05d" % i for i in range(count)]
    old: list[bytes | None] = [bytes(16)] * count
    loader.add(keys, old)
    assert (loader.records, loader.bytes) == (count, 21 * count)
    loader.flush(count, 1)
    values = untimed(i.to_bytes(8, "big") if i % 3 else None for i in range(count))
    loader.add(keys, old)
    loader.add(keys[::-1], values[::-1])
    loader.flush(3 * count, 2)
    loader.add([b"00001", b"x"], [None, old[0]])
    loader.flush(3 * count + 2, 2)
    assert (loader.records, loader.bytes) == (0, 0)
    wanted = {f"{i:05d}": i for i in range(2, count) if i % 3} | {"x": 0}
    assert dict(state.stores["s"].range()) == wanted
    assert not list((tmp_path / DATABASE).glob("bulk-*"))
    state.close()
    state = open_state(tmp_path)
    assert (state.positions, state.epochs) == (
        {changelog("s"): 3 * count + 2},
        {changelog("s"): 2},
    )
    assert dict(state.stores["s"].range()) == wanted
    state.close()


def test_an_interrupted_load_leaves_no_file_behind(tmp_path: Path) -> None:
    open_state(tmp_path).close()
    (tmp_path / DATABASE / "bulk-1").write_bytes(b"half a file")
    open_state(tmp_path).close()
    assert not (tmp_path / DATABASE / "bulk-1").exists()


def test_wiping_forgets_everything_but_the_stores_identity(tmp_path: Path) -> None:
    for folder in (tmp_path, None):
        state = open_state(folder)
        store = state.stores["s"]
        store.put("a", 1)
        state.topic_ids = {"app-s-changelog": "id-1"}
        commit(state, 1, position=5)
        store.put("b", 1)
        state.wipe()
        assert state.stores["s"] is store
        assert list(store.range()) == []
        assert (state.state, state.positions, state.topic_ids) == (NO_STATE, {}, {})
        store.put("c", 1)
        commit(state, 1)
        assert list(store.range()) == [("c", 1)]
        state.close()


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ([Spec("s")], "store t is not in the topology any more"),
        ([Spec("s", str, dict), Spec("t")], r"store s held str -> int, now str -> "),
        ([Spec("s", int), Spec("t")], r"store s held str -> int, now int -> int"),
    ],
)
def test_a_topology_that_changed_under_its_state_is_refused(
    tmp_path: Path, specs: list[Spec], message: str
) -> None:
    open_state(tmp_path).close()
    with pytest.raises(StateError, match=message) as caught:
        open_state(tmp_path, *specs)
    assert str(tmp_path) in str(caught.value)
    open_state(tmp_path, Spec("s"), Spec("t"), Spec("new")).close()


def test_a_refused_topology_leaves_its_database_as_it_was(tmp_path: Path) -> None:
    for raw in (None, b'{"v":3}'):
        state = open_state(tmp_path)
        state.stores["s"].put("a", 1)
        commit(state, 1, position=1)
        if raw is not None:
            assert state._disk is not None
            state._disk.write([], raw)
        state.close()
        with pytest.raises(StateMismatchError):
            open_state(tmp_path, Spec("other"))
        left = RocksEngine(tmp_path / DATABASE)
        assert left.stores == {"s", "t"}
        assert left.backing("s").get(b"a") == bytes(8) + (1).to_bytes(8, "big")
        left.close()


def committed(folder: Path, *specs: Spec) -> TaskState:
    """A state with an entry in each store, as of a commit."""
    state = open_state(folder, *specs)
    for store in state.stores.values():
        store.put("a", 1)
    state.write(state.drain(), StateNumber(1, 1), {changelog("s"): 7, changelog("t"): 9})
    return state


def test_a_store_that_is_missing_though_it_has_a_position_is_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = committed(tmp_path)
    assert isinstance(state._disk, RocksEngine)
    state._disk.use(["t"], state._meta().to_bytes())
    state.close()
    state = open_state(tmp_path)
    assert (state.positions, state.state) == ({changelog("t"): 9}, NO_STATE)
    assert [state.stores[name].get("a") for name in "st"] == [None, 1]
    assert f"store s are missing in {tmp_path}: it is restored" in caplog.text
    state.close()
    caplog.clear()
    open_state(tmp_path).close()
    assert caplog.text == "", "it is not missing any more, only not restored yet"


def test_a_store_that_an_older_version_emptied_is_not_believed(tmp_path: Path) -> None:
    """It recreated what it had dropped, and its meta does not say which stores are there."""
    for older in (True, False):
        state = committed(tmp_path)
        assert isinstance(state._disk, RocksEngine)
        meta = attrs.evolve(state._meta(), on_disk=None if older else frozenset("st"))
        state._disk.use(["t"], meta.to_bytes())
        state._disk.use(["s", "t"], meta.to_bytes())
        state.close()
        state = open_state(tmp_path)
        assert (changelog("s") in state.positions) is not older, "an empty store is one, too"
        state.wipe()
        state.close()


def test_a_store_that_moves_between_disk_and_memory_is_restored(tmp_path: Path) -> None:
    committed(tmp_path).close()
    memory = [Spec("s"), Spec("t", persistent=False)]
    state = open_state(tmp_path, *memory)
    assert (state.positions, state.state) == ({changelog("s"): 7}, NO_STATE)
    state.close()
    committed(tmp_path, *memory).close()
    state = open_state(tmp_path)
    assert state.positions == {changelog("s"): 7}
    assert state.stores["t"].get("a") is None
    state.close()


def test_a_missing_store_without_a_changelog_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    specs = [Spec("s"), Spec("bare", logged=False)]
    state = committed(tmp_path, *specs)
    assert isinstance(state._disk, RocksEngine)
    state._disk.use(["s"], state._meta().to_bytes())
    state.close()
    open_state(tmp_path, *specs).close()
    assert "store bare are missing" in caplog.text
    assert "it begins empty, for it has no changelog" in caplog.text


def test_a_database_opened_twice_is_refused(tmp_path: Path) -> None:
    state = open_state(tmp_path)
    with pytest.raises(StateLockedError):
        open_state(tmp_path)
    state.close()


def filled(folder: Path) -> None:
    """A task with files of every kind."""
    state = open_state(folder)
    loader = state.loader("s")
    loader.add([b"%05d" % i for i in range(30_000)], [(7).to_bytes(8, "big")] * 30_000)
    loader.flush(30_000, 1)
    state.stores["t"].put("a", 1)
    commit(state, 1)
    state.close()


def largest(folder: Path, pattern: str) -> Path:
    return max((folder / DATABASE).glob(pattern), key=lambda file: file.stat().st_size)


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def scribble(file: Path) -> None:
    raw = bytearray(file.read_bytes())
    for at in range(len(raw) // 2, len(raw), 512):
        raw[at] ^= 0xFF
    file.write_bytes(raw)


@pytest.mark.parametrize(
    ("pattern", "harm"),
    [
        ("CURRENT", Path.unlink),
        ("CURRENT", halve),
        ("CURRENT", scribble),
        ("MANIFEST-*", Path.unlink),
        ("MANIFEST-*", scribble),  # cut short: the next test
        ("*.sst", Path.unlink),
        ("*.sst", halve),
        ("*.sst", scribble),
    ],
)
def test_damage_is_found_at_open_or_at_the_first_read_and_never_served(
    tmp_path: Path, pattern: str, harm: Callable[[Path], None]
) -> None:
    filled(tmp_path)
    if harm is scribble and pattern == "CURRENT":
        (tmp_path / DATABASE / "CURRENT").write_bytes(b"MANIFEST-999999\n")
    else:
        harm(largest(tmp_path, pattern))

    def use() -> None:
        state = open_state(tmp_path)
        try:
            assert sum(1 for _ in state.stores["s"].range()) == -1, "a damaged store was served"
        finally:
            state.close()

    with pytest.raises(TaskCorruptedError, match=str(tmp_path)):
        use()


def test_a_manifest_cut_short_is_damage_unless_it_takes_all_knowledge_with_it(
    tmp_path: Path,
) -> None:
    """RocksDB opens either without a word, without the files that the lost part named."""
    closed, crashed = tmp_path / "closed", tmp_path / "crashed"
    state = open_state(closed)
    loader = state.loader("s")
    loader.add([b"%05d" % i for i in range(30_000)], [None] * 30_000)
    loader.flush(30_000, 1)
    shutil.copytree(closed, crashed)
    state.close()
    halve(largest(crashed, "MANIFEST-*"))
    with pytest.raises(TaskCorruptedError, match=r"MANIFEST-\d+ has \d+ bytes and had \d+"):
        open_state(crashed)
    halve(largest(closed, "MANIFEST-*"))
    state = open_state(closed)
    assert state.positions == {}, "what says that something was there was lost as well"
    state.close()


@pytest.mark.parametrize("harm", [halve, scribble])
def test_a_damaged_log_gives_an_earlier_state_that_agrees_with_its_positions(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    state = open_state(tmp_path)
    for number in range(1, 50):
        state.stores["s"].put("n", number)
        state.stores["t"].put("n", number)
        commit(state, number, position=number)
    shutil.copytree(tmp_path, tmp_path / "crashed")  # as a kill -9 leaves it
    state.close()
    harm(largest(tmp_path / "crashed", "*.log"))
    state = open_state(tmp_path / "crashed")
    number = state.state.number
    assert 1 < number < 49
    assert state.positions == {changelog("s"): number}
    assert [state.stores[name].get("n") for name in "st"] == [number, number]
    state.close()


def test_unreadable_meta_is_damage_and_a_later_format_is_not(tmp_path: Path) -> None:
    for raw, kind in (
        (b"{", TaskCorruptedError),
        (b"[]", TaskCorruptedError),
        (b'{"v":1}', TaskCorruptedError),
        (b'{"v":2}', TaskCorruptedError),
        (b'{"v":3}', StateMismatchError),
    ):
        state = open_state(tmp_path)
        assert state._disk is not None
        state._disk.write([], raw)
        state.close()
        with pytest.raises(StateError, match=r"damaged|later version") as caught:
            open_state(tmp_path)
        assert type(caught.value) is kind
        state_folder = tmp_path / DATABASE
        for file in state_folder.iterdir():
            file.unlink()


FILL_THE_DISK = """
import resource, signal, sys
from pathlib import Path
from streamlet.errors import StateError
from streamlet.types import StateNumber
from tests.unit.state.test_task_state import open_state
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
state = open_state(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for number in range(1, 1000):
    for i in range(100):
        state.stores["s"].put(str(i), number)
    drained = state.drain()
    try:
        state.write(drained, StateNumber(1, number), {})
    except StateError as error:
        assert type(error) is StateError, repr(error)
        assert state.state == StateNumber(1, number - 1), state.state
        assert state.stores["s"].get("1") == number
        print(number, error)
        break
"""


def test_a_failing_disk_write_names_the_path_and_keeps_the_last_commit(tmp_path: Path) -> None:
    """A limit on the size of files does what a full disk does."""
    assert resource.RLIMIT_FSIZE
    assert signal.SIGXFSZ
    done = subprocess.run(
        [sys.executable, "-c", FILL_THE_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    number, _, message = done.stdout.partition(" ")
    assert message.startswith(f"cannot use the state in {tmp_path / DATABASE}: IO error")
    state = open_state(tmp_path)
    assert state.state == StateNumber(1, int(number) - 1)
    assert state.stores["s"].get("1") == int(number) - 1
    state.close()
