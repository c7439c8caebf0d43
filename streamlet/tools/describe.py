"""``streamlet describe``: the topology of a program, or of an application on a cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import typer

from streamlet.tools.application import AppArgument, opened
from streamlet.tools.command import Common, command

if TYPE_CHECKING:
    from streamlet.control.values import Description


class Form(StrEnum):
    """The forms in which a topology is printed."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"
    JAVA = "java"


#: What holds under each guarantee, as in the table of ``docs/operations/exactness.md``.
_GUARANTEES = {
    "at_least_once": {
        "state": "exact after a crash",
        "outputs": "may be there again after a crash",
        "read": "at once",
        "cost": "a flush and a commit of positions each commit.interval.ms",
        "to_change": "processing.guarantee=exactly_once",
    },
    "exactly_once": {
        "state": "exact after a crash",
        "outputs": "each once, for readers of committed records",
        "read": "after the commit, see commit.interval.ms",
        "cost": "a transaction each commit.interval.ms; nothing is processed while it ends",
        "to_change": "processing.guarantee=at_least_once",
    },
}


@command("describe")
def describe(
    common: Common,
    app: AppArgument,
    form: Annotated[
        Form,
        typer.Option(
            "--format",
            envvar="STREAMLET_DESCRIBE_FORMAT",
            help="text; java: as Java's TopologyDescription prints it, for tools that draw that; "
            "mermaid: a flowchart; json: the same as --json.",
        ),
    ] = Form.TEXT,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="The same as --format mermaid.")
    ] = False,
) -> None:
    """Print the topology of an application.

    Of module:attribute that of the program, which needs no broker; --json tells what
    processing.guarantee gives it. Of an
    application's id that which the group runs, or ran last, without the program:
    its leader notes it in the control topic. --json then tells in "noted" by which
    member and version of streamlet.

    Exit 3: no such application, or no description of it.
    """
    if mermaid and form not in (Form.TEXT, Form.MERMAID):
        raise typer.BadParameter(f"--mermaid and --format {form.value} exclude each other")
    common.output.as_json |= form is Form.JSON
    chosen = Form.MERMAID if mermaid else form
    with common.output.alone():
        found = _of_program(common, app) if ":" in app else _of_group(common, app)
    text = found.forms.get(chosen.value, "").rstrip("\n")
    common.output.answer(_document(found), people=text)


def _of_program(common: Common, app: str) -> Description:
    from streamlet.app import load_app
    from streamlet.topology.description import description

    loaded = load_app(app)
    settings = common.load(loaded)
    found = description(loaded.topology(settings))
    guarantee = settings.processing_guarantee
    promise = {"processing.guarantee": guarantee, **_GUARANTEES[guarantee]}
    return attrs.evolve(found, topology={**found.topology, "guarantee": promise})


def _of_group(common: Common, app: str) -> Description:
    from streamlet.admin.applications import description_of

    with opened(common, app, "describe") as window:
        return description_of(window)


def _document(found: Description) -> dict[str, Any]:
    if not found.member:
        return found.topology
    return {**found.topology, "noted": {"member": found.member, "version": found.version}}
