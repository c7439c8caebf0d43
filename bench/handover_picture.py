"""The picture of a hand-over in the README: measured on a broker, and drawn.

``python -m bench.handover_picture`` has a second instance join a loaded first one, writes what it
saw to ``docs/pictures/handover.json`` and draws it for light and for dark pages, still
(``handover-light.svg``) and moving (``handover-moving-light.svg``).
``--draw`` draws the file that is there. Times are the broker's, of each record that was written.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.broker import read_all, serving
from bench.handover_app import UPDATE, names
from bench.handover_drawing import THEMES, drawn
from bench.handover_stage import Stage, loaded
from bench.processes import MeasurementError
from bench.rounds import tell

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
PARTITIONS, KEYS, RATE = 4, 200_000, 4_000
#: Silences up to here are not drawn: records come in beats, and commits make pauses.
_USUAL_MS = 100
#: What is shown before the second instance learns, behind the last hand-over, and around one.
_BEFORE_MS, _AFTER_MS, _CLOSE_MS = 1_000, 1_000, 60
#: Steady seconds before the measured join.
_STEADY_S = 3.5


def main() -> None:
    """Measure a hand-over, or take the file of the last one (``--draw``), and draw it."""
    parser = argparse.ArgumentParser(description="Measures and draws a hand-over for the README.")
    parser.add_argument("--draw", action="store_true", help="draw handover.json as it is")
    file = FOLDER / "handover.json"
    if not parser.parse_args().draw:
        FOLDER.mkdir(exist_ok=True)
        file.write_text(json.dumps(_measured(), indent=1) + "\n", "utf-8")
    found = json.loads(file.read_text("utf-8"))
    for theme in THEMES:
        (FOLDER / f"handover-{theme}.svg").write_text(drawn(found, theme), "utf-8")
        moving = drawn(found, theme, moving=True)
        (FOLDER / f"handover-moving-{theme}.svg").write_text(moving, "utf-8")


def _measured() -> dict[str, Any]:
    """A join under load. One goes before it: what the broker does first takes longer."""
    with (
        serving() as bootstrap,
        loaded(bootstrap, {}, RATE, KEYS, partitions=PARTITIONS) as stage,
    ):
        instances = stage.instances
        instances.start()
        instances.await_balance(1.0)
        instances.live[0].drain()
        instances.await_balance(_STEADY_S)
        one, two = instances.live[0], instances.start()
        instances.await_balance(2.0)
        sent = stage.finish()
        _, tally, wrong = stage.written(sent)
        if wrong or tally.lost or tally.duplicates:
            raise MeasurementError(f"not exact: {wrong or tally}")
        assert two.learns_ms is not None
        shown = list(_written(stage, two.learns_ms - _BEFORE_MS))
    return seen(shown, {one.pid: "one", two.pid: "two"}, two.learns_ms)


def _written(stage: Stage, since_ms: int) -> Iterator[tuple[int, int, int]]:
    """Partition, writer and time of each record from then on, in the order of offsets."""
    for batch in read_all(stage.bootstrap, names(stage.application)[1], stage.partitions):
        for message in batch:
            writer, at_ms = UPDATE.unpack(message.value() or b"")[0], message.timestamp()[1]
            if at_ms >= since_ms:
                yield message.partition() or 0, writer, at_ms


def seen(
    written: Sequence[tuple[int, int, int]], who: dict[int, str], learns_ms: int
) -> dict[str, Any]:
    """The facts that are drawn; times are ms since the left end of the picture."""
    zero = learns_ms - _BEFORE_MS
    runs: list[dict[str, Any]] = []
    moves: list[dict[str, Any]] = []
    times: dict[int, list[tuple[int, str]]] = {}
    for partition, writer, at_ms in written:
        task, name, at = f"0_{partition}", who[writer], at_ms - zero
        before = next((run for run in reversed(runs) if run["task"] == task), None)
        times.setdefault(partition, []).append((at, name))
        if before is not None and before["instance"] != name:
            moves.append({"task": task, "last": before["to"], "first": at})
        if before is None or before["instance"] != name or at - before["to"] > _USUAL_MS:
            runs.append({"task": task, "instance": name, "from": at, "to": at})
        else:
            before["to"] = at
    if not moves:
        raise MeasurementError("no task has moved")
    end = max(move["first"] for move in moves) + _AFTER_MS
    near = min(moves, key=lambda move: move["first"])
    low, high = near["last"] - _CLOSE_MS, near["first"] + _CLOSE_MS
    close = sorted({one for one in times[int(near["task"][2:])] if low <= one[0] <= high})
    for move in moves:
        tell(f"{move['task']}: {move['first'] - move['last']} ms")
    return {
        "rate": RATE,
        "keys": KEYS,
        "end": end,
        "learns": learns_ms - zero,
        "runs": [{**run, "to": min(run["to"], end)} for run in runs if run["from"] < end],
        "moves": sorted(moves, key=lambda move: str(move["task"])),
        "close": {"task": near["task"], "from": low, "to": high, "records": close},
    }


if __name__ == "__main__":
    main()
