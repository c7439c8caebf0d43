"""Draws what ``bench.handover_picture`` saw, as SVG, in two themes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: Colours of text, faint lines, and the two instances.
THEMES = {
    "light": {"text": "#1f2328", "faint": "#afb8c1", "one": "#0969da", "two": "#bc4c00"},
    "dark": {"text": "#e6edf3", "faint": "#57606a", "one": "#58a6ff", "two": "#f0883e"},
}
_WIDTH, _LEFT, _RIGHT = 860, 112, 20
_ROW, _BAR = 22, 12
_CLOSE_HEIGHT = 88


#: Uncovers the bars from left to right, a second of the run in two and a half, again and again.
_MOTION = """<style>
#run {{ animation: run {total:g}s linear infinite; transform-origin: {left}px 0; }}
#now {{ animation: now {total:g}s linear infinite; }}
@keyframes run {{ from {{ transform: scaleX(0); }} 80%, to {{ transform: scaleX(1); }} }}
@keyframes now {{ from {{ transform: translateX(-{width}px); }} 80%, to {{ transform: none; }} }}
@media (prefers-reduced-motion: reduce) {{ #run, #now {{ animation: none; }} }}
</style>
<clipPath id="seen">
<rect id="run" x="{left}" y="0" width="{width}" height="{height}"/>
</clipPath>"""


def drawn(seen: Mapping[str, Any], theme: str, *, moving: bool = False) -> str:
    """The picture of one hand-over in the colours of a theme, as it was or as it happens."""
    return "\n".join(_Picture(seen, THEMES[theme]).lines(moving)) + "\n"


class _Picture:
    """Rows of tasks by instance over time, and one hand-over from near."""

    def __init__(self, seen: Mapping[str, Any], colours: Mapping[str, str]) -> None:
        self._seen = seen
        self._colours = colours
        tasks = sorted({run["task"] for run in seen["runs"]})
        moved = [move["task"] for move in seen["moves"]]
        rows = [("one", task) for task in tasks] + [("two", task) for task in moved]
        #: Upper edge of each row's bar; a free row parts the instances.
        self._rows = {
            row: 44 + _ROW * (number + (row[0] == "two")) for number, row in enumerate(rows)
        }
        self._bottom = max(self._rows.values()) + _ROW

    def lines(self, moving: bool) -> Iterator[str]:
        """The lines of the file."""
        height = self._bottom + 58 + _CLOSE_HEIGHT
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            f'width="{_WIDTH}" height="{height}" font-family="system-ui, sans-serif" '
            'font-size="13" role="img">'
        )
        yield f"<title>{self._title()}</title>"
        yield from self._time()
        for (instance, task), y in self._rows.items():
            yield self._text(_LEFT - 10, y + _BAR - 1, f"{instance}  {task}", anchor="end")
        yield from self._begin_motion() if moving else ()
        for move in self._seen["moves"]:
            yield from self._move(move)
        for run in self._seen["runs"]:
            y = self._rows[run["instance"], run["task"]]
            yield self._bar(run["from"], run["to"], y, f'fill="{self._colours[run["instance"]]}"')
        yield from self._end_motion() if moving else ()
        yield from self._near()
        yield "</svg>"

    def _begin_motion(self) -> Iterator[str]:
        width = _WIDTH - _LEFT - _RIGHT
        total = self._seen["end"] / 1000 * 2.5 / 0.8
        yield _MOTION.format(total=round(total, 1), left=_LEFT, width=width, height=self._bottom)
        yield '<g clip-path="url(#seen)">'

    def _end_motion(self) -> Iterator[str]:
        """The end of what is uncovered, and the line that stands at the time that is shown."""
        yield "</g>"
        end = _WIDTH - _RIGHT
        yield f'<g id="now">{self._line(end, 36, end, self._bottom, "text", "1.5")}</g>'

    def _title(self) -> str:
        first = ", ".join(
            f"{move['task']} stands still for {move['first'] - move['last']} ms"
            for move in self._seen["moves"]
        )
        return (
            "Instance two joins while instance one processes "
            f"{self._seen['rate']:,} records a second. It copies the state of two tasks, which go "
            f"on meanwhile; then each changes hands: {first}."
        )

    def _x(self, at: float) -> float:
        return round(_LEFT + at * (_WIDTH - _LEFT - _RIGHT) / float(self._seen["end"]), 1)

    def _time(self) -> Iterator[str]:
        """Seconds, and what happens when."""
        for second in range(self._seen["end"] // 1000 + 1):
            x = self._x(second * 1000)
            yield self._line(x, 36, x, self._bottom, "faint", "0.5")
            yield self._text(x, self._bottom + 14, f"{second} s", anchor="middle")
        learns = self._x(self._seen["learns"])
        yield self._line(learns, 26, learns, self._bottom, "two", "1")
        said = "two has joined, and copies the state of two tasks"
        yield self._text(learns, 20, said, colour="two")

    def _move(self, move: Mapping[str, Any]) -> Iterator[str]:
        """A copy that is made, and the way from the old owner's row to the new one's."""
        task, learns = move["task"], self._seen["learns"]
        there, here = self._rows["two", task], self._rows["one", task]
        outline = f'fill="none" stroke="{self._colours["two"]}" stroke-dasharray="3 2"'
        yield self._bar(learns, move["first"], there, outline)
        x = self._x(move["first"])
        yield self._line(x, here + _BAR, x, there, "text", "1")

    def _near(self) -> Iterator[str]:
        """One hand-over: a stroke for each ms in which a record was written."""
        near = self._seen["close"]
        y, width = self._bottom + 58, _WIDTH - _LEFT - _RIGHT
        scale, first = width / float(near["to"] - near["from"]), float(near["from"])
        move = next(one for one in self._seen["moves"] if one["task"] == near["task"])

        def x(at: float) -> float:
            return round(_LEFT + (at - first) * scale, 1)

        still = move["first"] - move["last"]
        said = f"the hand-over of {near['task']} from near: a stroke is a millisecond with records"
        yield self._text(_LEFT, y - 12, said)
        for at, instance in near["records"]:
            yield self._line(x(at), y, x(at), y + 34, instance, "2.5")
        middle = (x(move["last"]) + x(move["first"])) / 2
        yield self._text(middle, y + 54, f"{still} ms", anchor="middle")
        yield self._line(x(move["last"]), y + 40, x(move["first"]), y + 40, "text", "1")
        yield self._text(x(move["last"]) - 12, y + 54, "written by one", anchor="end", colour="one")
        yield self._text(x(move["first"]) + 12, y + 54, "written by two", colour="two")

    def _bar(self, begin: float, end: float, y: float, style: str) -> str:
        x = self._x(begin)
        width = round(max(self._x(end) - x, 1), 1)
        return f'<rect x="{x}" y="{y}" width="{width}" height="{_BAR}" {style}/>'

    def _line(self, x: float, y: float, to_x: float, to_y: float, colour: str, width: str) -> str:
        return (
            f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{self._colours[colour]}" '
            f'stroke-width="{width}"/>'
        )

    def _text(
        self, x: float, y: float, text: str, *, anchor: str = "start", colour: str = "text"
    ) -> str:
        return (
            f'<text x="{x}" y="{y}" fill="{self._colours[colour]}" text-anchor="{anchor}" '
            f'xml:space="preserve">{text}</text>'
        )
