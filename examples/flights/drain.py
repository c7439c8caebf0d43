"""``streamlet scale-down --percent`` while the application runs, and what it tells."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import attrs

from examples.flights.instances import ROOT, InstanceFailed, streamlet

_LEAVING = re.compile(r"^flights: (?P<names>.+) to leave$")
_STEP = re.compile(r"^(?P<task>\d+_\d+) \S+ -> \S+: (?P<stage>\w+)")
_LEFT = re.compile(r"^(?P<name>\S+) has left$")


@attrs.define
class Told:
    """What the command told: who leaves, who has left, and the stage of each task that moves."""

    leaving: list[str] = attrs.field(factory=list)
    left: list[str] = attrs.field(factory=list)
    stages: dict[str, str] = attrs.field(factory=dict)

    def take(self, line: str) -> bool:
        """Take a line; whether it is worth telling, which single steps are not."""
        if found := _STEP.match(line):
            self.stages[found["task"]] = found["stage"]
        elif found := _LEAVING.match(line):
            self.leaving = found["names"].split(", ")
        elif found := _LEFT.match(line):
            self.left.append(found["name"])
        return not _STEP.match(line)

    @property
    def progress(self) -> str | None:
        """How far it is, in a line; None before and after."""
        if len(self.left) == len(self.leaving):
            return None
        stages = [f"{task} {stage}" for task, stage in sorted(self.stages.items())]
        moved = sum(stage == "active" for stage in self.stages.values())
        names = ", ".join(self.leaving)
        if not stages:
            return f"{names} is to leave"
        return f"{names} hands over, {moved} of {len(stages)} tasks moved: {', '.join(stages)}"


class Drain:
    """One run of the command.

    Args:
        bootstrap: the broker.
        folder: where what it tells is kept.
    """

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._log = folder / "scale-down.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._read = 0
        self.told = Told()

    def start(self, percent: int) -> None:
        """Let so many per cent of the instances stay."""
        command = streamlet("scale-down", "flights", "--percent", str(percent), "--yes")
        command += ["--bootstrap-servers", self._bootstrap]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def under_way(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def check(self) -> list[str]:
        """What it has told since that people should know.

        Raises:
            InstanceFailed: the command did not end well.
        """
        if self._process is None:
            return []
        ended = self._process.poll()
        *whole, _ = self._log.read_text(errors="replace").split("\n")
        new, self._read = whole[self._read :], len(whole)
        if ended:
            raise InstanceFailed("scale-down failed:\n" + "\n".join(whole))
        return [line for line in new if self.told.take(line)]

    def end(self) -> None:
        """End the command if it still runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
