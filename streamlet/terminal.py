"""The console for people: it obeys no control character of what it prints."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from streamlet.visible import visible

#: Variables that say how large a terminal is, and the most that is believed: each line is filled up
#: to its columns.
_SIZES, _MOST = ("COLUMNS", "LINES", "TERMINAL_WIDTH"), 10_000


class SafeConsole(Console):
    """A console that shows control characters in what it prints, rather than obeying them."""

    def on_broken_pipe(self) -> None:
        """Leave it to the caller, where rich would end the process; raises BrokenPipeError."""
        raise

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render to segments of text, and to the controls of the console itself."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control or text.isprintable() else Segment(visible(text), style)


def console(file: TextIO | None = None, *, soft_wrap: bool = False) -> Console:
    """The console for a stream; for standard output, whatever it is when it prints, if None."""
    return SafeConsole(file=file, highlight=False, soft_wrap=soft_wrap)


def drop_strange_sizes(environ: MutableMapping[str, str]) -> None:
    """Drop variables with sizes that no terminal has: what prints help believes any number."""
    for name in _SIZES:
        text = environ.get(name, "1")
        known = text.isascii() and text.isdigit() and len(text) <= len(str(_MOST))
        if not (known and 0 < int(text) <= _MOST):
            del environ[name]
