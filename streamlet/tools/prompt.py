"""Questions to the user at the keyboard, and Ctrl-C before and after the answer."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer
from rich.console import RenderableType

from streamlet.errors import RefusedError
from streamlet.hosting.signals import GracefulStop
from streamlet.signals import Handler, handled
from streamlet.tools.output import CommandOutput
from streamlet.visible import visible

#: The option of commands that ask.
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
#: How soon a signal is noticed that came as Python began to read.
_LOOK_S = 0.2


class StopAfterConsent:
    """Ctrl-C and SIGTERM in the block of a command that asks before it changes anything.

    They end the command until ``agree``, as there is nothing that could end gracefully. Then the
    first sets ``stopped``, and the second ends the command.

    Args:
        left: gives what Ctrl-C leaves behind, and what to do next, where its place does not.
    """

    def __init__(self, left: Callable[[], str]) -> None:
        self._left = left
        self._stop, self._block = GracefulStop(), ExitStack()
        self.stopped = self._stop.asked
        self.agreed = False

    def agree(self) -> None:
        """Take the consent: something is about to be changed."""
        self._block.enter_context(self._stop)
        self.agreed = True

    def shown(
        self, output: CommandOutput, plan: RenderableType, question: str, nothing: str, *, yes: bool
    ) -> bool:
        """Show a plan and ask, unless ``--yes`` was given; True, for what asks, to go on.

        Raises:
            RefusedError: the answer is no, or there is no terminal to ask at.
            KeyboardInterrupt: Ctrl-C, or SIGTERM.
        """
        output.notes(plan)
        if not yes:
            confirm(output, [question], nothing)
        self.agree()
        return True

    def __enter__(self) -> StopAfterConsent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        self._block.close()
        if isinstance(error, KeyboardInterrupt) and not str(error):
            raise KeyboardInterrupt(self._left()) from None


def can_ask(output: CommandOutput) -> bool:
    """True if there is a terminal to answer at."""
    return not output.as_json and sys.stdin.isatty()


def confirm(output: CommandOutput, questions: Sequence[str], nothing: str) -> None:
    """Return once each question was answered with yes. The end of input is no.

    ``nothing`` says what is left undone otherwise: "nothing was deleted".

    Raises:
        RefusedError: an answer is no, or there is no terminal to ask at.
        KeyboardInterrupt: Ctrl-C, or SIGTERM: nothing is under way that could end gracefully.
    """
    if not can_ask(output):
        raise RefusedError(f"no terminal to ask at, and {nothing}; give --yes to go on")
    if not all(_confirmed(question, nothing) for question in questions):
        raise RefusedError(nothing)


def _confirmed(question: str, nothing: str) -> bool:
    try:
        with _breakable():
            return typer.confirm(visible(question), err=True)
    except typer.Abort as error:  # by the end of input, or by either signal
        typer.echo(err=True)
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt(nothing) from None
        return False


@contextmanager
def _breakable() -> Iterator[None]:
    """Have SIGINT and SIGTERM end what is read meanwhile, however late Python notices them.

    One that comes after Python's last look for signals and before the read blocks would wait for
    the next key. A timer ends that read again and again, and each time Python looks.
    """
    handlers: dict[int, Handler] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.default_int_handler,
        signal.SIGALRM: lambda *_: None,
    }
    with handled(handlers):
        signal.setitimer(signal.ITIMER_REAL, _LOOK_S, _LOOK_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
