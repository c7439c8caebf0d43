"""``streamlet describe``: the topology of an application, without a broker."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from streamlet.tools.command import Common, command


class Form(StrEnum):
    """The forms in which a topology is printed."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"
    JAVA = "java"


@command("describe")
def describe(
    common: Common,
    app: Annotated[str, typer.Argument(metavar="APP", help="module:attribute of the App.")],
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
    """Print the topology of an application."""
    from streamlet.app import load_app
    from streamlet.topology.describe import as_java, as_json, as_mermaid, as_optimized_text

    if mermaid and form not in (Form.TEXT, Form.MERMAID):
        raise typer.BadParameter(f"--mermaid and --format {form.value} exclude each other")
    loaded = load_app(app)
    topology = loaded.topology(common.load(loaded))
    common.output.as_json |= form is Form.JSON
    forms = {Form.JAVA: as_java, Form.MERMAID: as_mermaid}
    text = forms.get(Form.MERMAID if mermaid else form, as_optimized_text)(topology)
    common.output.answer(as_json(topology), people=text.rstrip("\n"))
