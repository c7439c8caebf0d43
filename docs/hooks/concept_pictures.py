"""Draws the pictures of concepts and of an instance: `python docs/hooks/concept_pictures.py`.

Each picture is one file for light and for dark pages, whichever the reader has.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).resolve().parents[1] / "pictures"
_STYLE = """<style>
text { fill: #1f2328; font: 13px system-ui, sans-serif; text-anchor: middle; white-space: pre; }
.small { font-size: 11px; } .left { text-anchor: start; }
rect { fill: #f6f8fa; stroke: #8c959f; } .one { fill: #ddf4ff; stroke: #0969da; }
.two { fill: #fff1e5; stroke: #bc4c00; } .copy { stroke-dasharray: 4 3; }
.group { fill: none; stroke: #afb8c1; } .closed { fill: #eaeef2; stroke: #8c959f; }
path { fill: none; stroke: #57606a; marker-end: url(#tip); } .plain { marker-end: none; }
.both { marker-start: url(#tip); }
circle, .tip { fill: #57606a; stroke: none; } .late { fill: #bc4c00; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } rect { fill: #21262d; stroke: #6e7681; }
.one { fill: #0c2d6b; stroke: #58a6ff; } .two { fill: #5a1e02; stroke: #f0883e; }
.group { fill: none; stroke: #57606a; } .closed { fill: #30363d; stroke: #6e7681; }
path { stroke: #adbac7; } circle, .tip { fill: #adbac7; stroke: none; } .late { fill: #f0883e; }
}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" \
orient="auto-start-reverse"><path class="plain tip" d="M0 0 8 4 0 8z"/></marker></defs>"""


class Drawing:
    """Boxes, arrows and texts on a sheet of a width and a height in pixels."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">',
            f"<title>{escape(title)}</title>",
            _STYLE,
        ]

    def box(
        self, x: int, y: int, width: int, height: int, text: str = "", kind: str = "box"
    ) -> None:
        """A box, with its text in the middle; a line break parts lines."""
        self._parts.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>'
        )
        lines = text.split("\n")
        for number, line in enumerate(lines):
            at = y + height / 2 + 4 + 15 * (number - (len(lines) - 1) / 2)
            self.text(x + width / 2, at, line)

    def text(self, x: float, y: float, text: str, kind: str = "label") -> None:
        """A line of text around a place, or from it on with ``left``."""
        if text:
            self._parts.append(f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>')

    def arrow(self, *points: tuple[int, int], kind: str = "arrow") -> None:
        """An arrow through these places; a ``plain`` one is a line."""
        way = " ".join(f"{x} {y}" for x, y in points)
        self._parts.append(f'<path class="{kind}" d="M{way}"/>')

    def dots(self, y: int, places: Sequence[int], kind: str = "dot") -> None:
        """Records on a line of time."""
        self._parts += [f'<circle class="{kind}" cx="{x}" cy="{y}" r="4"/>' for x in places]

    def svg(self) -> str:
        """The file."""
        return "\n".join([*self._parts, "</svg>", ""])


def tasks() -> Drawing:
    """Partitions, tasks and the instances that run them."""
    sheet = Drawing(620, 236, "Four partitions, four tasks, two instances")
    sheet.text(80, 18, "topic orders")
    sheet.text(300, 18, "tasks, each with its state")
    for number in range(4):
        y = 30 + 50 * number
        kind = "one" if number < 2 else "two"
        sheet.box(20, y, 120, 36, f"partition {number}")
        sheet.arrow((142, y + 18), (216, y + 18))
        sheet.box(220, y, 70, 36, f"0_{number}", kind)
        sheet.box(296, y, 90, 36, "store", kind)
    for number, name in enumerate(("one", "two")):
        y = 24 + 100 * number
        sheet.box(208, y, 388, 96, kind="group")
        sheet.text(500, y + 52, f"instance {name}")
    return sheet


def learner() -> Drawing:
    """The owner before and after a hand-over, and the learner."""
    sheet = Drawing(620, 150, "A learner copies the state, then the task changes hands")
    sheet.text(10, 48, "instance one", "left")
    sheet.text(10, 98, "instance two", "left")
    sheet.box(100, 26, 330, 34, "processes the task", "one")
    sheet.box(180, 76, 262, 34, "learner: copies its state", "two copy")
    sheet.box(442, 76, 168, 34, "processes the task", "two")
    sheet.arrow((430, 43), (436, 43), (436, 74))
    sheet.text(470, 52, "hand-over", "small left")
    sheet.arrow((100, 136), (610, 136))
    sheet.text(122, 128, "time", "small")
    return sheet


def repartition() -> Drawing:
    """Orders by number, sent by item to where the prices are."""
    sheet = Drawing(640, 214, "Orders reach the task of their item through a repartition topic")
    heads = ((80, "orders, by number"), (326, "repartition topic, by item"), (556, "tasks"))
    for x, text in heads:
        sheet.text(x, 20, text)
    for number, (orders, item) in enumerate((("1: lamp\n2: desk", "lamp"), ("3: lamp", "desk"))):
        y = 36 + 78 * number
        kind = "one" if number == 0 else "two"
        sheet.box(20, y, 120, 56, orders)
        sheet.box(256, y, 140, 56, ("lamp: 1\nlamp: 3", "desk: 2")[number], kind)
        sheet.arrow((398, y + 28), (482, y + 28))
        sheet.box(486, y, 140, 56, f"orders of {item},\nprice of {item}", kind)
    sheet.arrow((142, 54), (254, 54))
    sheet.arrow((142, 76), (254, 138))
    sheet.arrow((142, 150), (254, 82))
    sheet.text(325, 204, "prices are keyed by item already: their partitions have the same numbers")
    return sheet


def repetitions() -> Drawing:
    """A crash between two commits."""
    sheet = Drawing(640, 190, "What is processed and written again after a crash")
    sheet.text(10, 54, "input", "left")
    sheet.text(10, 154, "output", "left")
    sheet.arrow((80, 50), (630, 50))
    sheet.dots(50, range(100, 420, 40))
    sheet.dots(150, range(100, 420, 40))
    sheet.dots(150, (460, 500, 540), "late")
    for x, text in ((240, "commit"), (400, "crash")):
        sheet.arrow((x, 26), (x, 110), kind="plain")
        sheet.text(x, 20, text)
    sheet.arrow((400, 80), (244, 80))
    sheet.text(322, 98, "state goes back to here", "small")
    sheet.text(500, 132, "the same results again", "small")
    sheet.text(340, 178, "written before the crash", "small")
    return sheet


def time() -> Drawing:
    """A window of a minute, its grace, and a late record."""
    sheet = Drawing(640, 150, "A window closes behind its end and its grace")
    sheet.box(60, 30, 300, 50, "window: 0 s to 60 s", "one")
    sheet.box(360, 30, 60, 50, "grace", "one copy")
    sheet.box(420, 30, 180, 50, "closed", "closed")
    sheet.arrow((40, 110), (626, 110))
    sheet.dots(110, (85, 355, 385, 415))
    sheet.dots(110, (450,), "late")
    for x, text in ((60, "0"), (360, "60 s"), (420, "70 s")):
        sheet.text(x, 134, text, "small")
    sheet.text(530, 100, "late, if its time is before 60 s", "small")
    sheet.text(590, 134, "stream time", "small")
    return sheet


def instance() -> Drawing:
    """An instance, the threads of one of its workers, and what they exchange with Kafka."""
    sheet = Drawing(890, 560, "An instance with one of its workers, and Kafka")
    sheet.box(10, 10, 600, 540, kind="group")
    sheet.box(30, 30, 240, 44, "Supervisor process\nhosting/supervisor")
    sheet.box(350, 30, 240, 44, "Fork server\nhosting/fork_server")
    sheet.arrow((270, 52), (348, 52))
    sheet.text(309, 44, "asks it", "small")
    sheet.arrow((110, 74), (110, 98))
    sheet.text(70, 91, "orders", "small")
    sheet.arrow((170, 100), (170, 76))
    sheet.text(206, 91, "events", "small")
    sheet.arrow((470, 74), (470, 98))
    sheet.text(496, 91, "forks", "small")
    sheet.box(24, 100, 572, 352, kind="group")
    sheet.text(310, 118, "Worker process, one or more: hosting/process, hosting/assembly")
    for y, text in (
        (150, "Stream thread\nruntime/stream_thread"),
        (250, "State updater, two threads\ntasks/state_updater"),
    ):
        sheet.box(50, y, 230, 56, text, "one")
    sheet.box(90, 370, 190, 56, "Event loop of async calls\nprocessing/call_pool", "one")
    sheet.box(350, 150, 230, 56, "Rebalance events\ntasks/rebalance_events")
    sheet.box(350, 250, 230, 56, "Control thread\ncoordinator/session", "two")
    sheet.box(350, 330, 230, 44, "Network thread\ncoordinator/transport", "two")
    sheet.box(350, 394, 230, 44, "Control topic's thread\nruntime/control_link", "two")
    sheet.box(50, 484, 530, 50, "Stores on disk, a folder per task: state/, RocksDB")
    sheet.box(640, 10, 240, 540, kind="group")
    sheet.text(760, 34, "Kafka")
    sheet.box(660, 120, 200, 50, "Input, repartition\nand output topics")
    sheet.box(660, 206, 200, 44, "Changelog topics")
    sheet.box(660, 327, 200, 50, "Group coordinator")
    sheet.box(660, 394, 200, 44, "Control topic\ncontrol/")
    sheet.arrow((230, 150), (230, 136), (658, 136), kind="both")
    sheet.text(630, 130, "records", "small")
    sheet.arrow((282, 196), (316, 217), (658, 217))
    sheet.text(470, 213, "changes of stores", "small")
    sheet.arrow((658, 236), (316, 236), (282, 262))
    sheet.text(470, 247, "restoring, copies", "small")
    sheet.arrow((282, 178), (348, 178), kind="both")
    sheet.text(315, 172, "decisions", "small")
    sheet.arrow((540, 250), (540, 208))
    sheet.arrow((465, 308), (465, 328), kind="both")
    sheet.arrow((582, 352), (658, 352), kind="both")
    sheet.text(620, 346, "requests", "small")
    sheet.arrow((582, 416), (658, 416), kind="both")
    sheet.text(620, 410, "marks", "small")
    sheet.arrow((165, 208), (165, 248), kind="both")
    sheet.text(120, 232, "copies, lag", "small")
    sheet.arrow((50, 178), (36, 178), (36, 398), (88, 398), kind="both")
    sheet.text(62, 392, "calls", "small")
    sheet.arrow((70, 308), (70, 482), kind="both")
    sheet.arrow((282, 188), (300, 188), (300, 482), kind="both")
    return sheet


PICTURES = {one.__name__: one for one in (tasks, learner, repartition, repetitions, time, instance)}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / f"concept-{name}.svg").write_text(draw().svg(), "utf-8")
