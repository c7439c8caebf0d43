"""``streamlet describe``: the topology of an application, without a broker."""

from __future__ import annotations

from typing import Annotated

import typer

from streamlet.tools.command import Common, command


@command("describe")
def describe(
    common: Common,
    app: Annotated[str, typer.Argument(metavar="APP", help="module:attribute of the App.")],
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print a mermaid flowchart instead.")
    ] = False,
) -> None:
    """Print the topology in Kafka Streams' own text form."""
    from streamlet.app import load_app
    from streamlet.topology.describe import as_json, as_mermaid, as_text

    topology = load_app(app).topology()
    text = as_mermaid(topology) if mermaid else as_text(topology)
    common.output.answer(as_json(topology), people=text.rstrip("\n"))
