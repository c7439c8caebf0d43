"""``RocksChoice``: the settings of RocksDB that a store may have of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from streamlet.config.values import ValueKind, choice, size, whole
from streamlet.errors import TopologyError
from streamlet.user_code import shown

#: RocksDB's compressions that the client brings, best for speed first.
COMPRESSIONS = ("lz4", "snappy", "zstd", "zlib", "none")
_MOST_BLOOM_BITS = 32
_LEAST_BYTES, _MOST_BYTES = 1 << 10, 1 << 30


@attrs.frozen
class RocksChoice:
    """The form of one store's files; the defaults are what stores have without a choice.

    Args:
        compression: of the files' blocks, one of ``COMPRESSIONS``.
        block_size: uncompressed bytes that one read of a file brings into memory.
        bloom_bits: bits for each key by which reads leave out files that do not have it; 0: none.
        write_buffer_size: bytes of rows that are kept in memory before they become a file.
    """

    compression: str = "lz4"
    block_size: int = 4 << 10
    bloom_bits: int = 10
    write_buffer_size: int = 4 << 20


_KINDS: dict[str, ValueKind[Any]] = {
    "compression": choice(*COMPRESSIONS),
    "block.size": size(),
    "bloom.bits": whole(),
    "write.buffer.size": size(),
}


def rocks_choice(given: Mapping[str, object], call: str) -> RocksChoice:
    """The choice that a user gave as a dict.

    Args:
        given: values by the keys ``compression``, ``block.size``, ``bloom.bits`` and
            ``write.buffer.size``; sizes are bytes or text such as ``"16 KiB"``.
        call: names the store in errors.

    Raises:
        TopologyError: it is no dict, or has an unknown key or a value that cannot be.
    """
    if not isinstance(given, Mapping):
        raise TopologyError(f"{call}: expected a dict such as {{'compression': 'zstd'}}")
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key not in _KINDS:
            raise TopologyError(f"{call}: no setting {shown(key)}; there are: {', '.join(_KINDS)}")
        try:
            found[key.replace(".", "_")] = _KINDS[key].parse(value)
        except ValueError as error:
            raise TopologyError(f"{call}: {key} = {shown(value)}: {error}") from error
    made = RocksChoice(**found)
    _check(made, call)
    return made


def _check(made: RocksChoice, call: str) -> None:
    sizes = {"block.size": made.block_size, "write.buffer.size": made.write_buffer_size}
    for key, value in sizes.items():
        if not _LEAST_BYTES <= value <= _MOST_BYTES:
            raise TopologyError(f"{call}: {key} = {value}: expected 1 KiB to 1 GiB")
    if made.bloom_bits > _MOST_BLOOM_BITS:
        raise TopologyError(
            f"{call}: bloom.bits = {made.bloom_bits}: expected at most {_MOST_BLOOM_BITS}"
        )
