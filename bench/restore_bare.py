"""The bare restore: each partition of the changelog into a dict, sorted, into one RocksDB file.

``python -m bench.restore_bare --bootstrap … --source … --state …`` is one measured run.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from rocksdict import IngestExternalFileOptions, Options, Rdict, SstFileWriter

from bench.broker import PARTITIONS, consumer, ends
from bench.restore_data import fingerprint
from bench.span import Span


def write_sorted(records: dict[bytes, bytes], store: Rdict, file: Path) -> None:
    """Give the store all records as one sorted file."""
    writer = SstFileWriter(Options(raw_mode=True))
    writer.open(str(file))
    for key in sorted(records):
        writer[key] = records[key]
    writer.finish()
    options = IngestExternalFileOptions()
    options.set_move_files(True)
    store.ingest_external_file([str(file)], options)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "source", "state"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    folder = Path(options.state)
    settings = Options(raw_mode=True)
    settings.create_if_missing(True)
    stores = [Rdict(str(folder / str(partition)), settings) for partition in range(PARTITIONS)]
    total = sum(ends(options.bootstrap, options.source).values())
    reader = consumer(options.bootstrap, "bench-restore-bare")
    reader.assign([TopicPartition(options.source, p, 0) for p in range(PARTITIONS)])
    records: list[dict[bytes, bytes]] = [{} for _ in range(PARTITIONS)]
    span, seen = Span(), 0
    while seen < total:
        messages: list[Any] = reader.consume(10_000, 0.05)
        if messages and not span.started:
            span.start()
        for message in messages:
            records[message.partition()][message.key()] = message.value()
        seen += len(messages)
    for partition, store in enumerate(stores):
        write_sorted(records[partition], store, folder / f"{partition}.sst")
        records[partition] = {}
    span.end()
    found = [(key, value) for store in stores for key, value in store.items()]
    span.report(total, keys=len(found), fingerprint=fingerprint(value for _, value in found))
    reader.close()


if __name__ == "__main__":
    main()
