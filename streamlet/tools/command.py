"""Makes a function a command: the options every command has, errors to exit codes, Ctrl-C.

A command is a function whose first parameter is ``common``; the rest are typer's, annotated. The
decorator puts the common options behind them, so that each command takes them after its own name::

    @command("topics list")
    def list_topics(common: Common, internal: Annotated[bool, typer.Option()] = False) -> None:
        \"\"\"List topics.\"\"\"          # the help text
        common.output.answer({"topics": [...]}, people=...)

A parameter whose type is an attrs class stands for the options that are its fields: a group of them
gets to the function as one value.

Two words make a group. A function ends by returning (exit 0), by raising one of our errors (its
``exit_code``), or by ``raise typer.Exit(1)`` after an answer that shows a violated check.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from copy import copy
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import attrs
import typer
from rich.markup import escape
from typer.models import OptionInfo

from streamlet.bounded import INT64_MAX
from streamlet.config.sources import variable
from streamlet.errors import BrokerError, ConfigError, StreamletError, broker_advice
from streamlet.hosting.log import set_up_logging
from streamlet.logs import get_logger
from streamlet.tools.connection_lines import holding_connection_lines
from streamlet.tools.output import CommandOutput, drop_output, exit_code_of
from streamlet.tools.settings import assignments, check_servers, merged, read_file
from streamlet.tools.variables import from_variable, variable_of
from streamlet.user_code import shown

if TYPE_CHECKING:
    from streamlet.app import App
    from streamlet.config import Settings
    from streamlet.config.sources import Entry, FileEntries
    from streamlet.config.table import ClientKind
    from streamlet.kafka.client import KafkaAdmin

log = get_logger(__name__)

DEFAULT_BOOTSTRAP_SERVERS = "localhost:9092"


class LogLevel(StrEnum):
    """The levels of logging."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@attrs.frozen
class Common:
    """The options of every command.

    ``given_servers`` is None when neither option, variable nor setting names a broker, so that an
    application's own address can go before the default. ``settings`` are the unchecked ones of
    ``--config`` and ``--set`` together, ``file`` and ``assigned`` each of them alone; options that
    stand for a setting are among the latter, with their names. ``names_servers`` is true if a
    broker is named on the command line itself.
    """

    given_servers: str | None
    settings: dict[str, str]
    output: CommandOutput
    file: FileEntries = ()
    assigned: Sequence[str | Entry] = ()
    names_servers: bool = False

    @property
    def bootstrap_servers(self) -> str:
        """The broker's address, the default when none was given."""
        return self.given_servers or DEFAULT_BOOTSTRAP_SERVERS

    def client_config(self, kind: ClientKind = "admin") -> dict[str, Any]:
        """The properties of a client: security, and those that begin with ``admin.`` or so.

        Raises:
            ConfigError: a setting that is none of streamlet's.
        """
        return self.load().client_config(kind)

    def admin(self) -> KafkaAdmin:
        """A client for requests about topics; raises as ``client_config``."""
        from streamlet.kafka.client import KafkaAdmin

        return KafkaAdmin(self.bootstrap_servers, self.client_config())

    def load(self, app: App | None = None) -> Settings:
        """The settings of the command line and the environment, over those of ``app``.

        Raises:
            ConfigError: everything that is wrong with any of them, at once.
        """
        from streamlet.config import Settings

        if app is None:
            return Settings.load(file=self.file, environ=os.environ, overrides=self.assigned)
        return app.load_settings(file=self.file, environ=os.environ, overrides=self.assigned)

    @property
    def overrides(self) -> list[str]:
        """``settings`` as ``key=value``, for other processes, which have no file."""
        return [f"{key}={value}" for key, value in self.settings.items()]

    def with_options(self, *given: tuple[str, object, str]) -> Common:
        """The options with settings that have options of their own, which win over all others.

        Args:
            given: key, value and option of each, the option as users type it; None: not given.
        """
        own = [(key, str(value), option) for key, value, option in given if value is not None]
        settings = {**self.settings, **{key: value for key, value, _ in own}}
        return attrs.evolve(self, settings=settings, assigned=[*self.assigned, *own])

    def with_servers(self) -> Common:
        """The options with the broker's address among the settings, if one was given."""
        return self.with_options(("bootstrap.servers", self.given_servers, "--bootstrap-servers"))


@attrs.frozen
class _Registered:
    words: tuple[str, ...]
    run: Callable[..., None]


#: Commands in the order their files were loaded.
REGISTRY: list[_Registered] = []

_PANEL = "Every command"
#: Options that stand for keys of records, which may be empty texts.
_MAY_BE_EMPTY = frozenset({"key", "low", "high", "prefix"})
#: Numbers whose commands say more of them.
_SAID_BY_COMMANDS = frozenset({"percent"})


def _shared(
    variable: str, text: str, option: str | None = None, *, metavar: str | None = None
) -> Any:
    words = () if option is None else (option,)
    return typer.Option(*words, metavar=metavar, help=text, envvar=variable, rich_help_panel=_PANEL)


@attrs.frozen
class SharedOptions:
    """The options of every command, as they were given."""

    bootstrap_servers: Annotated[
        str | None,
        _shared(
            "STREAMLET_BOOTSTRAP_SERVERS",
            f"Kafka's address, host:port,… [default: {DEFAULT_BOOTSTRAP_SERVERS}]",
        ),
    ] = None
    config: Annotated[
        Path | None, _shared("STREAMLET_CONFIG", "Properties file with settings.", metavar="FILE")
    ] = None
    set_: Annotated[
        list[str] | None,
        _shared(
            "STREAMLET_SET",
            "A setting; may be repeated, wins over the file.",
            "--set",
            metavar="KEY=VALUE",
        ),
    ] = None
    json: Annotated[
        bool, _shared("STREAMLET_JSON", "Print one JSON document on standard output.", "--json")
    ] = False
    log_level: Annotated[
        LogLevel,
        _shared(
            "STREAMLET_LOG_LEVEL",
            "Log to standard error from here on: debug, info, warning or error.",
            metavar="LEVEL",
        ),
    ] = LogLevel.WARNING
    log_json: Annotated[
        bool,
        _shared("STREAMLET_LOG_JSON", "Write each line of standard error as JSON.", "--log-json"),
    ] = False


def command(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as the command of this name, ``"status"`` or ``"broker start"``."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        REGISTRY.append(_Registered(tuple(name.split()), _with_common_options(function)))
        return function

    return register


def _with_common_options(function: Callable[..., None]) -> Callable[..., None]:
    """The function as typer sees it: ``common`` replaced by the options it is made of."""
    hints = get_type_hints(function, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if attrs.has(kind)}
    groups["common"] = SharedOptions

    @functools.wraps(function)
    def run(context: typer.Context, **given: Any) -> None:
        for name, group in groups.items():
            fields = [field.name for field in attrs.fields(group)]
            given[name] = group(**{field: given.pop(field) for field in fields})
        _run(function, given.pop("common"), given, context)

    options = [
        inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    ]
    parameters = inspect.signature(function).parameters.values()
    for p in sorted(parameters, key=lambda p: p.name == "common"):
        if p.name in groups:
            kinds = get_type_hints(groups[p.name], include_extras=True)
            fields = attrs.fields(groups[p.name])
            options += [_option(field.name, kinds[field.name], field.default) for field in fields]
        else:
            options.append(_option(p.name, hints[p.name], p.default))
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in options}
    del run.__wrapped__  # typer would look behind the signature
    return run


def _option(name: str, kind: Any, default: Any) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=_shown_whole(kind))


def _shown_whole(annotation: Any) -> Any:
    """An option that ``--help`` shows as it is written, and in 80 columns.

    Typer would take ``[default: x]`` for markup and drop it, and cut off the names of environment
    variables: the end of the help says how those are made.
    """
    if get_origin(annotation) is not Annotated:
        return annotation
    kind, *infos = get_args(annotation)
    shown = [copy(info) for info in infos]
    for info in shown:
        info.show_envvar = False
        info.help = escape(info.help or "")
        if Path in (kind, *get_args(kind)) and isinstance(info, OptionInfo):
            info.parser, info.metavar = _path, info.metavar or "PATH"
    return Annotated[kind, *shown]


def check_values(context: typer.Context) -> None:
    """Refuse values that no option has a meaning for.

    Raises:
        ConfigError: a text is empty, but for keys, or a number is none, or beyond 64 bits.
    """
    problems = []
    for parameter in context.command.params:
        if parameter.name in _SAID_BY_COMMANDS:
            continue
        value = context.params.get(parameter.name or "")
        for one in value if isinstance(value, list | tuple) else (value,):
            wrong = _wrong_with(one, may_be_empty=parameter.name in _MAY_BE_EMPTY)
            if wrong is not None:
                place = variable_of(context, parameter) or _words_of(parameter)
                problems.append(f"{place} {wrong}")
    if problems:
        raise ConfigError(problems)


def _words_of(parameter: Any) -> str:
    """A parameter as it is called on the command line."""
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.upper())


def _wrong_with(value: object, *, may_be_empty: bool) -> str | None:
    match value:
        case str() if not may_be_empty and not value.strip():
            return "is empty: give a value, or leave it out"
        case float() if not isfinite(value):
            return f"= {value}: expected a number"
        case int() if not -INT64_MAX <= value <= INT64_MAX:
            return f"= {shown(value)}: expected at most {INT64_MAX}"
    return None


def _path(given: str | Path) -> Path:
    """A path as it is given, or by default; an empty text would stand for the current folder."""
    if not str(given).strip():
        raise typer.BadParameter("a path is empty: give a value, or leave it out")
    return Path(given)


def _run(
    function: Callable[..., None],
    shared: SharedOptions,
    own: dict[str, Any],
    context: typer.Context,
) -> None:
    output = CommandOutput(shared.json, log_json=shared.log_json)
    try:
        check_values(context)
        handler = set_up_logging(shared.log_level.value, shared.log_json)
        file = read_file(shared.config)
        place = "STREAMLET_SET" if from_variable(context, "set_") else "--set"
        assigned = assignments(shared.set_ or (), place)
        settings = merged(file, assigned)
        named = bool(shared.bootstrap_servers) and not from_variable(context, "bootstrap_servers")
        servers = check_servers(*_servers(shared, named, assigned, file))
        common = Common(servers, settings, output, file, assigned, named)
        with output.alone(), holding_connection_lines(handler):
            function(common=common, **own)
    except BrokenPipeError as error:
        # The reader of our output has gone; Python would complain once more while it shuts down.
        drop_output(sys.stdout)
        raise typer.Exit(1) from error
    except (StreamletError, KeyboardInterrupt) as error:
        log.debug("the command failed", exc_info=True)
        away = isinstance(error, BrokerError) and error.passing
        hint = broker_advice(error) if away else ""
        output.failed(error, exit_code_of(error), hint)
        raise typer.Exit(exit_code_of(error)) from error
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:
            # A file that was named, and that this user may not look at, or whose name is too long.
            log.debug("the command failed", exc_info=True)
            refused = ConfigError([f"{error.filename}: {error.strerror}"])
            output.failed(refused, refused.exit_code)
            raise typer.Exit(refused.exit_code) from error
        log.exception("this should not happen; please report it")
        output.failed(error, 1)
        raise typer.Exit(1) from error


def _servers(
    shared: SharedOptions, named: bool, assigned: Sequence[Entry], file: FileEntries
) -> tuple[str | None, str]:
    """The brokers' addresses, and their place: the option, ``--set``, the variable, the file."""
    key, given = "bootstrap.servers", shared.bootstrap_servers
    place = "--bootstrap-servers" if named else variable(key)
    own = [] if not given else [(key, given, place)]
    entries = (*own, *assigned, *file) if named else (*assigned, *own, *file)
    return next(((text, place) for name, text, place in entries if name == key), (None, key))
