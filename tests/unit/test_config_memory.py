"""One budget of memory is split over what bounds memory; what is given keeps its value."""

from __future__ import annotations

import pytest

from streamlet.config import Settings
from streamlet.errors import ConfigError


def test_a_budget_is_split_and_no_part_is_forgotten() -> None:
    budget = 1_000 << 20
    settings = Settings.load({"memory.max.bytes": budget})
    parts = [
        settings.cache_max_bytes,
        settings.input_buffer_max_bytes,
        settings.rocksdb_block_cache_bytes,
        settings.rocksdb_memtables_bytes,
    ]
    assert parts == [400 << 20, 150 << 20, 100 << 20, 100 << 20]
    queues = [
        settings.client_config("main.consumer")["queued.max.messages.kbytes"],
        settings.client_config("restore.consumer")["queued.max.messages.kbytes"],
        settings.client_config("producer")["queue.buffering.max.kbytes"],
    ]
    assert queues == [100 << 10, 50 << 10, 100 << 10]
    assert sum(parts) + 1024 * sum(queues) == budget


def test_what_is_given_beside_a_budget_keeps_its_value() -> None:
    settings = Settings.load(
        {
            "memory.max.bytes": "512 MiB",
            "cache.max.bytes": 1,
            "consumer.queued.max.messages.kbytes": 77,
            "producer.queue.buffering.max.kbytes": 88,
        }
    )
    assert settings.cache_max_bytes == 1
    for kind in ("main.consumer", "restore.consumer", "global.consumer"):
        assert settings.client_config(kind)["queued.max.messages.kbytes"] == 77
    assert settings.client_config("producer")["queue.buffering.max.kbytes"] == 88


def test_a_budget_does_not_change_the_other_settings_of_clients() -> None:
    settings = Settings.load(
        {"memory.max.bytes": "64 MiB", "restore.consumer.fetch.max.bytes": 1 << 20}
    )
    assert settings.client_config("restore.consumer") == {
        "queued.max.messages.kbytes": (64 << 20) * 5 // 100 >> 10,
        "fetch.max.bytes": 1 << 20,
    }


def test_without_a_budget_nothing_is_given_to_clients() -> None:
    settings = Settings.load({})
    assert settings.client_config("main.consumer") == {}
    assert settings.cache_max_bytes == 64 << 20


def test_the_largest_budget_is_what_clients_take() -> None:
    settings = Settings.load({"memory.max.bytes": "1 TB"})
    assert settings.client_config("producer")["queue.buffering.max.kbytes"] == 2_097_151


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("memory.max.bytes", "63 MiB", "at least 67108864 (64 MiB)"),
        ("memory.max.bytes", -1, "expected bytes, 0 or more"),
        ("rocksdb.block.cache.bytes", 0, "at least 1048576 (1 MiB)"),
        ("rocksdb.memtables.bytes", "1 kB", "at least 1048576 (1 MiB)"),
    ],
)
def test_bounds_that_are_too_small_are_refused(key: str, value: object, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Settings.load({key: value})
    assert key in str(refused.value)
    assert said in str(refused.value)
