"""``streamlet members``: who is in an application's group, and taking static members out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from streamlet.errors import NotFoundError
from streamlet.tools.application import AppArgument, opened
from streamlet.tools.command import Common, command
from streamlet.tools.output import table

if TYPE_CHECKING:
    from streamlet.admin.members import Removal


@command("members list")
def list_(common: Common, app: AppArgument) -> None:
    """List the members of an application's group, static ids included."""
    from streamlet.admin.members import listed

    with opened(common, app, "members") as window:
        found = listed(window)
    shown = table("MEMBER", "INSTANCE ID", "STATE", rows=map(attrs.astuple, found))
    common.output.answer(
        {"members": [*map(attrs.asdict, found)]}, shown if found else "no member is there"
    )


@command("members remove")
def remove_(
    common: Common,
    app: AppArgument,
    instance_id: Annotated[
        list[str],
        typer.Option(
            metavar="ID",
            help="Static id of a member (a-0), or of an instance (a) for all its members; may be"
            " repeated.",
        ),
    ],
) -> None:
    """Take static members that are down out of the group, instead of waiting for their session.

    All are removed in one request, and the group rebalances at once. A member that is alive joins
    again. Exit 1 if any id could not be removed.
    """
    if not all(instance_id):
        raise typer.BadParameter("an id must not be empty", param_hint="--instance-id")
    from streamlet.admin.members import remove, right_to_remove

    with opened(common, app, "members") as window:
        try:
            removed = remove(window, instance_id)
        except NotFoundError as error:
            raise NotFoundError(f"{error} (INVALID_GROUP_ID)") from error
    common.output.answer(
        {
            "results": [
                {"instance_id": r.instance_id, "ok": r.ok, "error": r.error} for r in removed
            ]
        },
        "\n".join(_outcome_text(one) for one in removed),
    )
    if any(one.refused for one in removed):
        common.output.note(right_to_remove(window.name))
    if not all(one.ok for one in removed):
        raise typer.Exit(1)


def _outcome_text(removal: Removal) -> str:
    if removal.ok:
        return f"removed: {removal.instance_id}"
    hint = " (no member of the group has this id)" if removal.error == "UNKNOWN_MEMBER_ID" else ""
    return f"not removed: {removal.instance_id}: {removal.error}{hint}"
