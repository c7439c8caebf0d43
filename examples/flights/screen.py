"""Shows the demo: a live table in a terminal, else a plain line every other second."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import attrs
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table

from examples.flights.expected import Results

_LINE_EVERY_S = 2.0


@attrs.frozen
class View:
    """What there is to see at one moment. Rates are flights per second."""

    seconds: float
    total: int
    produced: int
    processed: int
    rate: float
    tasks: dict[str, list[str]]
    leaving: list[str]
    learning: list[str]
    draining: str | None
    airlines: Results
    hours: Results


class Screen:
    """A context manager; what is announced stays above the live table."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False)
        self._is_live = self._console.is_terminal
        self._next_line_s = 0.0

    def __enter__(self) -> Screen:
        if self._is_live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_live:
            self._live.stop()

    def announce(self, text: str) -> None:
        """Something happens."""
        self._console.print(text, soft_wrap=True)

    def show(self, view: View) -> None:
        """Everything as it is now."""
        if self._is_live:
            parts = (
                _progress(view),
                _hosts(view),
                _learning(view),
                _hours(view.hours),
                _results(view),
            )
            self._live.update(Group(*parts), refresh=True)
        elif view.seconds >= self._next_line_s:
            self._next_line_s = view.seconds + _LINE_EVERY_S
            self._console.print(_line(view), soft_wrap=True)


def _line(view: View) -> str:
    hosts = "  ".join(f"{name}: {len(tasks)} tasks" for name, tasks in sorted(view.tasks.items()))
    return (
        f"{view.seconds:5.1f} s  {view.produced:,} of {view.total:,} flights, "
        f"{view.processed:,} processed  {view.rate:,.0f} records/s  "
        f"lag {view.produced - view.processed:,}  {hosts}"
        + "".join(f"\n         {line}" for line in [_hours(view.hours), *_moving(view)])
    )


def _progress(view: View) -> RenderableType:
    table = Table(title=f"flights, {view.seconds:.0f} s", title_justify="left")
    for name in ("produced", "processed", "records/s", "lag"):
        table.add_column(name, justify="right")
    table.add_row(
        f"{view.produced:,} of {view.total:,}",
        f"{view.processed:,}",
        f"{view.rate:,.0f}",
        f"{view.produced - view.processed:,}",
    )
    return table


def _hosts(view: View) -> RenderableType:
    table = Table("instance", "tasks", "")
    for name in sorted({*view.tasks, *view.leaving}):
        tasks = view.tasks.get(name, [])
        note = " (leaving)" if name in view.leaving else ""
        table.add_row(name + note, str(len(tasks)), " ".join(tasks))
    return table


def _learning(view: View) -> RenderableType:
    return "\n".join(_moving(view)) or "no task is on its way"


def _moving(view: View) -> list[str]:
    return [*view.learning, *filter(None, [view.draining])]


def closed(hours: Results) -> str:
    """How many hours have a result, and which have none."""
    return (
        f"{len(hours):,} hours are closed and compared; "
        "an airport's last hour is open until a later flight comes"
    )


def _hours(hours: Results) -> str:
    """The last hour that was closed at each airport."""
    last = {delays["name"]: (hour, delays) for hour, delays in hours.items()}
    shown = [
        f"{hour}, {delays['flights']} flights, {_mean(delays) or 'all cancelled'}"
        for _, (hour, delays) in sorted(last.items())
    ]
    return f"{len(hours):,} hours closed: " + ("; ".join(shown) or "none")


def _mean(delays: dict[str, Any]) -> str:
    """The mean delay; an empty text if no flight has left."""
    flown = delays["flights"] - delays["cancelled"]
    return f"{delays['total'] / flown:.1f} min" if flown else ""


def _results(view: View) -> RenderableType:
    table = Table("airline")
    for name in ("flights", "cancelled", "mean delay", "worst"):
        table.add_column(name, justify="right")
    for result in sorted(view.airlines.values(), key=lambda one: -one["flights"]):
        table.add_row(
            result["name"],
            f"{result['flights']:,}",
            f"{result['cancelled']:,}",
            _mean(result),
            "" if result["worst"] is None else f"{result['worst']:,} min",
        )
    return table
