"""Restoring a store from its changelog: streamlet beside a bare read into sorted files."""

from __future__ import annotations

import shutil
import tempfile
from typing import Any

import attrs

from bench import rounds
from bench.broker import serving
from bench.processes import measure
from bench.restore_data import Changelog, load_changelog
from bench.rounds import Outcome, Variant

#: The name that the application of ``restore_ours`` gives its changelog.
_TOPIC = "bench-restore-kept-changelog"


@attrs.frozen
class Bench:
    """One loaded changelog."""

    bootstrap: str
    changelog: Changelog

    def bare(self) -> Outcome:
        """Sorted files, written by a loop."""
        return self._run("bench.restore_bare", self.changelog.framed)

    def streamlet(self) -> Outcome:
        """The restore that every task goes through."""
        return self._run("bench.restore_ours", self.changelog.plain)

    def _run(self, module: str, fingerprint: int) -> Outcome:
        state = tempfile.mkdtemp(prefix="streamlet-bench-")
        options = {
            "--bootstrap": self.bootstrap,
            "--source": _TOPIC,
            "--state": state,
        }
        if module == "bench.restore_ours":
            options["--commits"] = str(self.changelog.commits)
        try:
            command = [module, *(word for pair in options.items() for word in pair)]
            measurement = measure([command], self.changelog.keys)
        finally:
            shutil.rmtree(state, ignore_errors=True)
        found = measurement.details
        wrong = ""
        if found["keys"] != self.changelog.keys:
            wrong = f"{found['keys']} keys were restored, expected {self.changelog.keys}"
        elif found["fingerprint"] != fingerprint:
            wrong = "the restored values differ from those in the changelog"
        return Outcome(measurement, wrong)


def run(*, keys: int, runs: int, peers: list[str]) -> dict[str, Any]:
    """Measure; the result as it is printed. Rates are keys per second."""
    with serving() as bootstrap:
        rounds.tell(f"loading a changelog with {keys:,} keys")
        bench = Bench(bootstrap, load_changelog(bootstrap, _TOPIC, keys))
        variants: dict[str, Variant] = {"bare": bench.bare, "streamlet": bench.streamlet}
        chosen = {name: variant for name, variant in variants.items() if name in peers}
        outcomes = rounds.play(chosen, runs)
    return rounds.summary("restore", outcomes)
