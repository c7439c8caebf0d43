"""``python -m tests.oracle CASES --out DIR`` replays the case files of a folder.

DIR gets one file per topology that can be built, in the shape of the case files. The first
difference of each run is printed, and the topologies that cannot be built by name. The exit code
is 1 if a run differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tests.oracle.compare import first_difference
from tests.oracle.replay import replay
from tests.oracle.tables import MISSING, TOPOLOGIES


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--out", type=Path, help="a folder for what came")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these topologies only")
    given = parser.parse_args(arguments)
    cases = [json.loads(path.read_text("utf-8")) for path in sorted(given.cases.glob("*.json"))]
    if given.only:
        cases = [case for case in cases if case["topology"] in given.only]
    if not cases:
        parser.error(f"no cases in {given.cases}")
    built = [case for case in cases if case["topology"] in TOPOLOGIES]
    differing = [case["topology"] for case in built if not _is_equal(case, given.out)]
    print(f"{len(built) - len(differing)} of {len(cases)} topologies are equal in all runs")
    if differing:
        print(f"{len(differing)} differ: {', '.join(differing)}")
    absent = [case["topology"] for case in cases if case["topology"] not in TOPOLOGIES]
    for name in absent:
        need = f" (without {MISSING[name].name})" if name in MISSING else ""
        print(f"cannot be built: {name}{need}")
    return 1 if differing else 0


def _is_equal(case: dict[str, Any], folder: Path | None) -> bool:
    actual = replay(case, TOPOLOGIES[case["topology"]])
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{case['topology']}.json").write_text(json.dumps(actual), "utf-8")
    equal = True
    for run, other in zip(case["runs"], actual["runs"], strict=True):
        if (why := first_difference(run, other)) is not None:
            print(f"{case['topology']} seed {run['seed']}: {why}")
            equal = False
    return equal


if __name__ == "__main__":
    sys.exit(main())
