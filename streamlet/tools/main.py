"""The command line's root.

One file of this room holds one command or one group of commands. To add one, add a file with a
function under ``@command("name")`` (see ``streamlet.tools.command``): every module of this package
is loaded, and what it registers appears. Modules import what is heavy inside their functions, so
that ``streamlet --help`` stays quick.
"""

from __future__ import annotations

import inspect
import os
import pkgutil
import shutil
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

import streamlet.tools
from streamlet.terminal import drop_strange_sizes
from streamlet.tools.command import REGISTRY
from streamlet.tools.output import CommandOutput, printing_outside_commands, taking_all
from streamlet.tools.variables import CommandOfVariables
from streamlet.tools.versions import version_lines

#: What ``--help`` says of a group.
_GROUPS = {
    "broker": "A real Kafka broker on this machine, for development and tests.",
    "registry": "A schema registry on this machine, for development and tests.",
    "topics": "Topics of the broker.",
    "dead-letters": "Records that an application left out: dead letters.",
    "members": "Members of an application's group.",
    "state": "State folders on this machine.",
    "workers": "Worker processes of an instance on this machine.",
}


#: Columns that the tables of help need; with fewer they would cut names of options off.
_TABLE = 80


def build() -> typer.Typer:
    """The whole command line, every registered command in its place."""
    for module in sorted(found.name for found in pkgutil.iter_modules(streamlet.tools.__path__)):
        import_module(f"streamlet.tools.{module}")
    root = typer.Typer(
        name="streamlet",
        help="Elastic, stateful stream processing on Apache Kafka.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"auto_envvar_prefix": "STREAMLET", "help_option_names": ["-h", "--help"]},
    )
    root.callback(invoke_without_command=True)(_root)
    groups: dict[str, typer.Typer] = {}
    for registered in REGISTRY:
        *group, name = registered.words
        parent = root
        if group:
            if group[0] not in groups:
                groups[group[0]] = typer.Typer(no_args_is_help=True)
                root.add_typer(groups[group[0]], name=group[0], help=_GROUPS.get(group[0]))
            parent = groups[group[0]]
        documented = parent.command(
            name,
            cls=CommandOfVariables,
            help=_paragraphs(registered.run),
            epilog=_variables(registered.words),
        )
        documented(registered.run)
    return root


def plain(root: typer.Typer) -> TyperGroup:
    """The command line with help and usage errors as plain text, for a narrow terminal."""
    root.rich_markup_mode = None
    found = get_group(root)
    waiting: list[Any] = [found]
    for command in waiting:
        waiting += getattr(command, "commands", {}).values()
        for one in command.params:
            one.help = (getattr(one, "help", None) or "").replace("\\[", "[")  # rich's escape
    return found


def _paragraphs(run: Callable[..., None]) -> str:
    """A command's docstring with one line per paragraph, for typer to wrap."""
    paragraphs = inspect.cleandoc(run.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.splitlines()) for paragraph in paragraphs)


def _variables(words: tuple[str, ...]) -> str:
    """The environment variables that stand for a command's options."""
    prefix = "_".join(("STREAMLET", *words)).replace("-", "_").upper()
    return (
        f"Environment variables stand for options: {prefix}_SOME_NAME for --some-name, "
        "and STREAMLET_SOME_NAME where every command has it."
    )


def _root(
    context: typer.Context,
    show_version: Annotated[
        bool,
        typer.Option("--version", allow_from_autoenv=False, help="Show the version."),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            allow_from_autoenv=False,
            help="With --version: those of Python, clients, RocksDB, Kafka and Spark, too.",
        ),
    ] = False,
) -> None:
    """Elastic, stateful stream processing on Apache Kafka."""
    if show_version:
        print("\n".join(version_lines()) if verbose else version("streamlet"))
        raise typer.Exit
    if verbose:
        raise typer.BadParameter("--verbose goes with --version", ctx=context)
    if context.invoked_subcommand is None:
        context.fail("Missing command.")


def main() -> None:
    """Run the command line and exit: 0 ok, else what the error says (see ``streamlet.errors``)."""
    drop_strange_sizes(os.environ)
    commands: Callable[..., Any]
    try:
        commands = build()
        if shutil.get_terminal_size().columns < _TABLE:
            commands = plain(commands)
    except KeyboardInterrupt:
        sys.exit(130)
    taking_all(sys.stdout)  # help has characters that not every encoding has
    with printing_outside_commands():
        try:
            commands(prog_name="streamlet")
        except SystemExit as ended:
            _tell_usage(ended)
            raise


def _tell_usage(ended: SystemExit) -> None:
    """With ``--json``, the document for words that led to no command, which are typer's to refuse.

    The message was shown already.
    """
    describe = getattr(ended.__context__, "format_message", None)
    if describe is not None and ("--json" in sys.argv or os.environ.get("STREAMLET_JSON")):
        problem = {"type": "UsageError", "message": describe(), "exit_code": ended.code}
        CommandOutput(as_json=True).answer({"error": problem})
