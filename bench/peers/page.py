"""Writes what ``python -m bench peers --docs`` measured as a page and as pictures.

The figures lie in ``docs/pictures/peers.json``, from which the others are made alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.handover_drawing import THEMES

DOCS = Path(__file__).resolve().parents[2] / "docs"
PICTURES = DOCS / "pictures"
FIGURES = PICTURES / "peers.json"
PAGE = DOCS / "peers.md"

WHAT = {
    "wordcount": "count per word, every update written",
    "on-commit": "count per word, the last one with each commit",
    "window": "count per word and window, every update written",
    "passthrough": "bytes through",
}
NAMES = {
    "kafka_streams_1": "Kafka Streams, 1 thread",
    "kafka_streams_2": "Kafka Streams, 2 threads",
    "bare": "bare loop",
    "streamlet_python": "streamlet, kafka.client=python",
    "streamlet_native": "streamlet, kafka.client=native",
    "quix": "Quix Streams",
}
_PICTURES = """\
<picture>
  <source media="(prefers-color-scheme: dark)" srcset="pictures/peers-dark.svg">
  <img src="pictures/peers-light.svg" alt="Records per second of each program, by workload">
</picture>
"""
_HOW = """\
## How it is measured

- From the first record seen to the commit of the last one. The start of a program, and of its JVM,
  does not count; the JVM's warming up does. Windows: behind a preload and a quarter of the records.
- Kafka Streams: `-Xmx1g`, a commit each second, stores in RocksDB with changelogs; without its
  cache where every update is written, with it where the last one goes with a commit.
- Quix Streams: on the first 200,000 records of the topic, as its rate is even. It has no updates
  that wait for a commit.
- The bare loop restores nothing and survives no crash: `bench/README.md`.
"""
_EQUAL = """\
`python -m bench peers --equal` measures nothing: Kafka Streams under `exactly_once_v2` and
streamlet under `exactly_once` process the same input, of which a third was aborted; streamlet is
killed once meanwhile; and what they wrote is compared, key by key.
"""
#: Above this load average at its start a machine may be busy with other work.
_BUSY = 0.5
_WIDTH, _LEFT, _RIGHT, _ROW, _BAR = 860, 220, 110, 20, 14


def write(result: Mapping[str, Any]) -> None:
    """Write figures, page and pictures."""
    PICTURES.mkdir(exist_ok=True)
    FIGURES.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    PAGE.write_text(page(result), "utf-8")
    for theme in THEMES:
        (PICTURES / f"peers-{theme}.svg").write_text(drawn(result, theme), "utf-8")


def page(result: Mapping[str, Any] | None) -> str:
    """The page of the documentation; of what is compared, and how, where nothing was measured."""
    return "\n".join(_lines(result)) + "\n"


def _lines(result: Mapping[str, Any] | None) -> Iterator[str]:
    yield "# Beside Kafka Streams and Quix Streams"
    yield ""
    yield "`python -m bench peers --docs` measures all programs in turns, on the same topics of one"
    yield "broker, checks each output, and writes its figures here."
    yield ""
    if result is not None:
        yield from _figures(result)
    yield from _HOW.splitlines()
    if result is not None:
        for name in result["skipped"]:
            yield f"- {NAMES[name]} could not be had."
    yield ""
    yield from _EQUAL.splitlines()


def _figures(result: Mapping[str, Any]) -> Iterator[str]:
    """Pictures, machine and tables."""
    at = result["machine"]
    yield from _PICTURES.splitlines()
    yield ""
    yield (
        f"Measured on {at['date']}, Kafka Streams {at['kafka_streams']}, "
        f"Quix Streams {at['quix']}, Python {at['python']}, on one machine with "
        f"{at['cores']} cores ({at['processor']}) and {at['memory_gb']} GB, which the "
        f"broker shares: {result['records']:,} records, {result['keys']:,} keys, "
        f"medians of {result['runs']} rounds."
    )
    if at["load_average"] > _BUSY:
        yield (
            f"The load average was {at['load_average']} at the start. If other work went on "
            "meanwhile, rates are too low, and ratios are what they are worth."
        )
    for workload, what in WHAT.items():
        if workload in result:
            yield from _table(workload, what, result[workload])
    yield ""


def _table(workload: str, what: str, found: Mapping[str, Any]) -> Iterator[str]:
    better = found.get("better", "")
    yield ""
    yield f"## {what[0].upper()}{what[1:]}"
    yield ""
    yield (
        f"`python -m bench peers --workloads {workload}`; ratios are to "
        f"{NAMES.get(better, 'nothing')}, the faster one of Kafka Streams."
    )
    yield ""
    yield "| program | records/s | ratio | CPU s per million | memory, MB |"
    yield "|---|---|---|---|---|"
    for name, title in NAMES.items():
        if name in found:
            one = found[name]
            ratio = found.get("ratios", {}).get(name)
            yield (
                f"| {title} | {one['rate']:,} | {'' if ratio is None else f'{ratio:.2f}'} | "
                f"{one['cpu_s_per_m']:.1f} | {one['rss_mb']:.0f} |"
            )


def drawn(result: Mapping[str, Any], theme: str) -> str:
    """Bars of rates, one group a workload, in the colours of a theme."""
    return "\n".join(_picture(result, THEMES[theme])) + "\n"


def _picture(result: Mapping[str, Any], colours: Mapping[str, str]) -> Iterator[str]:
    shown = [workload for workload in WHAT if workload in result]
    bars = {one: [name for name in NAMES if name in result[one]] for one in shown}
    height = sum(40 + _ROW * len(names) for names in bars.values()) + 10
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="system-ui, sans-serif" '
        'font-size="13" role="img">'
    )
    yield "<title>Records per second of each program, by workload</title>"
    most = max(result[one][name]["rate"] for one, names in bars.items() for name in names)
    y = 0
    for workload, names in bars.items():
        y += 26
        yield _text(_LEFT, y, WHAT[workload], colours["text"], "start")
        y += 14
        for name in names:
            rate, own = result[workload][name]["rate"], name.startswith("streamlet")
            width = round(max(rate * (_WIDTH - _LEFT - _RIGHT) / most, 1), 1)
            colour = colours["one"] if own else colours["two" if "kafka" in name else "faint"]
            yield _text(_LEFT - 10, y + _BAR - 3, NAMES[name], colours["text"], "end")
            yield f'<rect x="{_LEFT}" y="{y}" width="{width}" height="{_BAR}" fill="{colour}"/>'
            yield _text(_LEFT + width + 8, y + _BAR - 3, f"{rate:,}", colours["text"], "start")
            y += _ROW
    yield "</svg>"


def _text(x: float, y: float, text: str, colour: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}">{text}</text>'
