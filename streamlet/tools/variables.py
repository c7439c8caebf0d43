"""Names the variable of the environment in errors of values that such a variable gave."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand


class CommandOfVariables(TyperCommand):
    """A command whose usage errors name the variable that gave the value, and the option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line, with the variables that stand for the others."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            option: Any = error.param
            name = variable_of(ctx, option)
            if name is not None and error.param_hint is None:
                error.param_hint = f"'{name}' ({max(option.opts, key=len)})"
            raise


def from_variable(context: Any, name: str) -> bool:
    """True if a variable of the environment gave an option."""
    source = context.get_parameter_source(name)
    return source is not None and bool(source.name == "ENVIRONMENT")


def variable_of(context: Any, parameter: Any) -> str | None:
    """The variable of the environment that gave a parameter its value; None: none did."""
    if parameter is None or parameter.name is None or not from_variable(context, parameter.name):
        return None
    if parameter.envvar:
        return str(parameter.envvar)
    return f"{context.auto_envvar_prefix}_{parameter.name.upper()}"
