"""The console for people: it obeys no control character of what it prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from streamlet.visible import visible


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
