"""``streamlet list``: the applications of a cluster."""

from __future__ import annotations

from streamlet.tools.command import Common, command
from streamlet.tools.output import table


@command("list")
def list_(common: Common) -> None:
    """List the applications that have run on this cluster.

    An application is one that has a control topic, APP-streamlet-control, which its
    first instance makes. STATE is that of its group; - where there is no group, or
    this user may not DESCRIBE it. VERSION is that of the streamlet that leads it.
    """
    from streamlet.admin.applications import applications
    from streamlet.admin.window import ApplicationInfo
    from streamlet.hosting.clients import open_window

    settings = common.with_servers().load()
    with open_window(ApplicationInfo("streamlet-list", settings), "list") as window:
        found = applications(window)
    rows = [
        (one.name, one.state, one.instances, one.members, one.leaving, one.version, one.note)
        for one in found
    ]
    heads = "APPLICATION", "STATE", "INSTANCES", "MEMBERS", "LEAVING", "VERSION", ""
    common.output.answer(
        {"applications": [one.as_dict() for one in found]},
        table(*heads, rows=rows) if rows else "no application has run on this cluster",
    )
