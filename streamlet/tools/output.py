"""The output of a command, and its streams.

With ``--json`` standard output carries exactly one JSON document (one per line under ``--watch``)
and nothing else; without it, standard output is for people. Notes, progress and errors go to
standard error either way, so that a pipe never has to pick them out.
"""

from __future__ import annotations

import codecs
import io
import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from streamlet.errors import StreamletError
from streamlet.hosting.log import noted_line
from streamlet.terminal import console
from streamlet.user_code import text_of
from streamlet.visible import visible_json, visible_line

if TYPE_CHECKING:
    from rich.live import Live

#: Columns that a table in a pipe may take.
_WIDEST = 10_000

#: Clears a terminal's line from the cursor on.
_CLEAR = "\x1b[K"


class CommandOutput:
    """A command's only way to speak.

    Args:
        as_json: ``--json`` was given.
        out: standard output.
        err: standard error.
        log_json: ``--log-json`` was given: what goes to standard error is JSON lines.
    """

    def __init__(
        self,
        as_json: bool,
        out: TextIO | None = None,
        err: TextIO | None = None,
        *,
        log_json: bool = False,
    ) -> None:
        self.as_json, self._log_json = as_json, log_json
        self._out = taking_all(out or sys.stdout)
        self._people = _console(self._out)
        self._err = err or sys.stderr
        self._notes = _console(self._err)
        #: Whether standard error is a terminal in which a line can be drawn again.
        self.draws = self._notes.is_terminal and not (self._notes.is_dumb_terminal or log_json)
        self._drawn = False
        #: Whether the one document was printed; it must not be printed twice.
        self.answered = False

    def alone(self) -> AbstractContextManager[object]:
        """Have a program print to standard error, where standard output is for one document."""
        return redirect_stdout(sys.stderr) if self.as_json else nullcontext()

    def answer(self, document: Any, people: RenderableType | None = None) -> None:
        """Print the command's result, once: ``document`` as JSON, or ``people`` for people.

        Args:
            document: what ``--json`` prints; plain dicts, lists, strings, numbers, bools, None.
            people: what is printed without it; a string is printed as it is, without markup.
        """
        assert not self.answered, "a command answers once; use tick() under --watch"
        self.answered = True
        self.tick(document, people)

    def tick(self, document: Any, people: RenderableType | None = None) -> None:
        """Print one of many results, a JSON document per line; for ``--watch``."""
        self._wipe()
        with _written(self._out):
            if self.as_json:
                self.answered = True
                text = visible_json(json.dumps(document, ensure_ascii=False))
                print(text, file=self._out, flush=True)
            elif people is not None:
                self._people.print(Text(people) if isinstance(people, str) else people)

    def lines(self, texts: Sequence[str]) -> None:
        """Print many results, a line each; documents in JSON lines among them.

        Control characters are shown to people at a terminal; a pipe gets them as they are.
        """
        self._wipe()
        self.answered = True
        if self._people.is_terminal:
            texts = [*map(visible_json if self.as_json else visible_line, texts)]
        with _written(self._out):
            self._out.write("".join(f"{text}\n" for text in texts))
            self._out.flush()

    def note(self, text: str) -> None:
        """Print a line for people, to standard error."""
        if self._log_json:
            self.event(text)
            return
        self._wipe()
        with _noted(self._err):
            self._notes.print(Text(text))

    def event(self, text: str, level: int = logging.INFO) -> None:
        """Tell people something that happened now, with its time."""
        self._wipe()
        line = noted_line(text, level, as_json=self._log_json)
        with _noted(self._err):
            self._err.write(f"{line}\n")
            self._err.flush()

    def notes(self, people: RenderableType) -> None:
        """Tell people something beside the result that is more than a line of text."""
        if self._log_json:
            text = _console(io.StringIO())
            text.print(people)
            self.event(text.file.getvalue().rstrip("\n"))  # type: ignore[attr-defined]
            return
        self._wipe()
        with _noted(self._err):
            self._notes.print(people)

    def status(self, text: str) -> None:
        """Show a text in the last line of the terminal, in place of the one before.

        What is printed next takes its place. Without a terminal nothing is shown.
        """
        if self.draws:
            self._drawn = True
            with _noted(self._err):
                self._err.write(f"\r{_CLEAR}{visible_line(text)[: self._notes.width - 1]}\r")
                self._err.flush()

    def _wipe(self) -> None:
        if self._drawn:
            self._drawn = False
            with _noted(self._err):
                self._err.write(_CLEAR)
                self._err.flush()

    def failed(self, error: BaseException, exit_code: int, hint: str = "") -> None:
        """Say what went wrong: to people always, as the JSON document if there is none yet.

        ``hint`` says what to look at, where the error does not.
        """
        kind = type(error).__name__
        text = text_of(error) or ("interrupted" if isinstance(error, KeyboardInterrupt) else kind)
        if self._log_json:
            self.event(f"error: {text}", logging.ERROR)
        else:
            self._wipe()
            with _noted(self._err):
                self._notes.print(Text.assemble(("error: ", "bold red"), text))
        if hint:
            self.note(hint)
        if self.as_json and not self.answered:
            problem = {"type": kind, "message": text, "exit_code": exit_code}
            if hint:
                problem["hint"] = hint
            self.answer({"error": problem})


@contextmanager
def _written(out: TextIO) -> Iterator[None]:
    """Name standard output where it takes nothing, such as on a full disk."""
    try:
        yield
    except BrokenPipeError:
        raise  # its reader has gone, which is no failure
    except OSError as error:
        drop_output(out)
        raise StreamletError(f"standard output cannot be written: {error.strerror}") from error


@contextmanager
def printing_outside_commands() -> Iterator[None]:
    """End by exit code 1 where help, a version or a usage error cannot be printed.

    Commands see to that themselves; without one it would be a traceback.
    """
    try:
        with _written(sys.stdout):
            try:
                yield
            finally:
                sys.stdout.flush()
    except BrokenPipeError:
        drop_output(sys.stdout)
        sys.exit(1)
    except StreamletError as error:
        CommandOutput(as_json=False).failed(error, error.exit_code)
        sys.exit(error.exit_code)


@contextmanager
def _noted(err: TextIO) -> Iterator[None]:
    """Drop notes to standard error once its reader is gone (``2>&1 | head``)."""
    try:
        yield
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), err.fileno())


def drop_output(out: TextIO) -> None:
    """Drop what is left for standard output, or Python would fail to write it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """The escapes of JSON for characters that the encoding of a stream does not have.

    These are halves of surrogate pairs, as of names whose bytes are no UTF-8, or all but ASCII.
    """
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error("streamlet.escaped", _escaped)


def taking_all(out: TextIO) -> TextIO:
    """The stream, which writes any text: else a name could end a command instead of its answer."""
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="streamlet.escaped")
    return out


def _console(to: TextIO) -> Console:
    """A console that cuts nothing off where no terminal sets the width, such as in a pipe."""
    made = console(to, soft_wrap=True)
    if not made.is_terminal:
        made.width = _WIDEST
    return made


def live() -> Live | None:
    """A part of standard output that is drawn again; None where it is no terminal."""
    from rich.live import Live

    people = console()
    return Live(console=people, auto_refresh=False) if people.is_terminal else None


def exit_code_of(error: BaseException) -> int:
    """The exit code of a command: our errors know it, Ctrl-C is 130, the rest is 1."""
    if isinstance(error, StreamletError):
        return error.exit_code
    return 130 if isinstance(error, KeyboardInterrupt) else 1


class FactsTable:
    """Rows under the names of columns; row by row, a line each, where the names have no room."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        self._names = [visible_line(column) for column in columns]
        self._cells = [
            ["-" if cell is None else visible_line(str(cell)) for cell in row] for row in rows
        ]
        made = self._table = Table(box=None, pad_edge=False, header_style="bold")
        for index, name in enumerate(self._names):
            numbers = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
            # In a narrow terminal a cell goes on in the next line: a path that ends in … is of no
            # use.
            made.add_column(name, justify="right" if numbers else "left", overflow="fold")
        for row in self._cells:
            made.add_row(*map(Text, row))

    def __rich_console__(self, to: Console, options: ConsoleOptions) -> RenderResult:
        """The table, or a line for each cell."""
        between = 2 * (len(self._names) - 1)
        if sum(map(len, self._names)) + between <= options.max_width:
            yield self._table
            return
        for number, row in enumerate(self._cells):
            yield from [Text()] if number else []
            for name, cell in zip(self._names, row, strict=True):
                yield Text.assemble((name, "bold"), " ", cell)


def table(*columns: str, rows: Iterable[Iterable[object]]) -> FactsTable:
    """A plain table for people; numbers stand right."""
    return FactsTable(columns, [tuple(row) for row in rows])
