"""The status document for people."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from streamlet.counted import counted
from streamlet.tools.output import table
from streamlet.tools.scaling_view import size

_ROLES = ("active", "learner", "standby", "pending", "released")
_LAGGING_SHOWN = 12


def view(document: dict[str, Any], checked: bool) -> RenderableType:
    """Headline, members with their tasks, hand-overs, lag and what is wrong."""
    parts: list[RenderableType] = [_headline(document), _members(document["instances"])]
    if document["unassigned"]:
        parts += [Text(), _unassigned(document["unassigned"])]
    if document["handovers"]:
        parts += [Text(), _handovers(document["handovers"])]
    if document["input_lag"]:
        parts += [Text(), _lag(document["input_lag"])]
    parts += [Text(line, "bold red") for line in _unread(document["unread"])]
    copies = _global_copies(document["instances"])
    if copies:
        parts += [Text(), _global_tables(copies)]
    if "advice" in document:
        parts += [Text(), _advice(document["advice"])]
    memory = _memory(document["instances"])
    if memory:
        parts += [Text(), Text(memory)]
    late = _late(document["instances"])
    if late:
        parts += [Text(), Text(late)]
    if document["shutdown"] is not None:
        parts += [Text(), _shutdown(document["shutdown"], ended=not document["instances"])]
    parts += [Text(_paused(one), "yellow") for one in document["paused"]]
    names = _names(document["instances"])
    if not checked:
        parts += [Text(text, "bold red") for text in _problems(document["instances"])]
    for violation in document["violations"]:
        text = _violation_text(violation, names)
        parts.append(Text.assemble((f"violated {violation['rule']}: ", "bold red"), text))
    if checked and not document["instances"]:
        parts.append(Text("nothing could be checked, because no instance is running", "bold red"))
    elif checked and not document["violations"]:
        parts.append(Text("all checks hold", "green"))
    return Group(*parts)


def _headline(document: dict[str, Any]) -> Text:
    group = document["group"]
    facts = [group["state"]]
    if group["mode"]:
        facts.append(group["mode"])
    if group["generation"] is not None:
        facts.append(f"generation {group['generation']}")
    if group["leader"]:
        facts.append(f"led by {group['leader']}")
    if group["last_rebalance"]["reason"]:
        facts.append(f"last rebalance: {group['last_rebalance']['reason']}")
    return Text.assemble((document["application"], "bold"), "  ", ", ".join(facts))


def _members(instances: list[dict[str, Any]]) -> RenderableType:
    from streamlet.admin.snapshot import told_apart

    if not instances:
        return Text("no instance is running")
    rows: list[tuple[object, ...]] = []
    ids, names = ([one[field] for one in instances] for field in ("process_id", "name"))
    for instance, name in zip(instances, told_apart(ids, names), strict=True):
        leaving = _leaving(instance["leaving"])
        for member in instance["members"]:
            tasks = member["tasks"]
            by_role = (
                _listed(task for task in tasks if task["role"] == role) or None for role in _ROLES
            )
            state = member["state"] + (" (disk fails)" if member["disk_fails"] else "")
            rows.append((f"{name}{leaving}", member["member"], state, *by_role))
    return table("INSTANCE", "MEMBER", "STATE", *(role.upper() for role in _ROLES), rows=rows)


def _problems(instances: list[dict[str, Any]]) -> Iterable[str]:
    """Tasks that stand still, each with the reason; and inputs whose keys lie elsewhere, once."""
    tasks = [task for i in instances for member in i["members"] for task in member["tasks"]]
    yield from (f"{t['task']} stands still: {t['problem']}" for t in tasks if t.get("problem"))
    yield from (f"{t['task']}: {t['misplaced']}" for t in tasks if t.get("misplaced"))


def _late(instances: list[dict[str, Any]]) -> str:
    """The active tasks that left late records out of windows, with how many; empty: none did."""
    tasks = (task for i in instances for member in i["members"] for task in member["tasks"])
    counts = {task["task"]: task["late"] for task in tasks if task.get("late")}
    if not counts:
        return ""
    by_task = " ".join(f"{task}:{count:,}" for task, count in sorted(counts.items()))
    return f"late for closed windows: {counted(sum(counts.values()), 'record')} ({by_task})"


def _memory(instances: list[dict[str, Any]]) -> str:
    """The line of members' memory, beside its bounds; empty if none reported it."""
    members = (member for instance in instances for member in instance["members"])
    used = [
        (sum(part["bytes"] for part in one["memory"].values()), one)
        for one in members
        if one["memory"] is not None
    ]
    used.sort(key=lambda item: -item[0])
    shown = [
        f"{one['member']} {size(taken)} of "
        f"{size(sum(part['most'] for part in one['memory'].values()))}"
        for taken, one in used[:_LAGGING_SHOWN]
    ]
    more = " …" if len(used) > _LAGGING_SHOWN else ""
    return f"memory: {', '.join(shown)}{more}" if shown else ""


def _leaving(leaving: dict[str, Any] | None) -> str:
    if leaving is None:
        return ""
    missing = leaving["waits_for"]
    return f"  (leaving once {', '.join(missing)} is back)" if missing else "  (leaving)"


def _listed(tasks: Iterable[dict[str, Any]]) -> str:
    """Tasks, each with its lag in changelog records if it has one."""
    return " ".join(
        f"{task['task']}:{task['lag']:,}" if task["lag"] else task["task"] for task in tasks
    )


def _handovers(handovers: list[dict[str, Any]]) -> RenderableType:
    rows = [
        (
            one["task"],
            one["from"],
            one["to"],
            one["stage"],
            _number(one["restored"]),
            _number(one["end"]),
            None if one["rate"] is None else f"{one['rate']:,.0f}/s",
            None if one["eta_s"] is None else f"{one['eta_s']:,.0f} s",
        )
        for one in handovers
    ]
    columns = ("HAND-OVER", "FROM", "TO", "STAGE", "RESTORED", "END", "RATE", "ETA")
    return table(*columns, rows=rows)


def _unassigned(found: list[dict[str, Any]]) -> RenderableType:
    """The tasks without a member, a line for each time until which they wait."""
    until: dict[int | None, list[str]] = {}
    for one in found:
        until.setdefault(one["until_ms"], []).append(one["task"])
    return Group(*(_without_member(tasks, until_ms) for until_ms, tasks in until.items()))


def _without_member(tasks: list[str], until_ms: int | None) -> Text:
    if until_ms is None:
        return Text.assemble(("unassigned: ", "bold red"), " ".join(tasks))
    waits = f"wait{'s' * (len(tasks) == 1)} for a member until {_utc(until_ms)}"
    return Text.assemble(("unassigned: ", "bold"), f"{' '.join(tasks)} {waits}")


def _paused(pause: dict[str, Any]) -> str:
    """A pause: of what, since when, and who set it."""
    number = pause["subtopology"]
    what = "paused" if number is None else f"subtopology {number} is paused"
    by = f" by {pause['by']}" if pause["by"] else ""
    return f"{what} since {_utc(pause['since_ms'])}{by}; streamlet resume has it go on"


def _shutdown(shutdown: dict[str, Any], *, ended: bool) -> Text:
    """The last shutdown of all instances: who decided it, when and why."""
    head = ("shut down", "bold red") if ended else "last shut down"
    text = f" everywhere (exit code 7) by {shutdown['by']} at {_utc(shutdown['at_ms'])}"
    return Text.assemble(head, f"{text}: {shutdown['reason']}")


def _utc(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _number(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def _advice(advice: dict[str, Any]) -> RenderableType:
    wanted, current = advice["instances"], advice["current"]
    text = f"{wanted} instance{'' if wanted == 1 else 's'}"
    text += " as now" if wanted == current else f" (now {current})"
    lines = [Text.assemble("advice: ", (text, "bold"))]
    return Group(*lines, *(Text(f"  {reason}") for reason in advice["reasons"]))


def _lag(lag: dict[str, dict[str, int]]) -> RenderableType:
    rows: list[tuple[object, ...]] = []
    for topic, partitions in lag.items():
        in_order = dict(sorted(partitions.items(), key=lambda one: int(one[0])))
        most = _most_behind(in_order)
        rows.append((topic, len(partitions), sum(partitions.values()), most))
    return table("INPUT", "PARTITIONS", "LAG", "BY PARTITION", rows=rows)


def _unread(unread: dict[str, dict[str, int]]) -> Iterable[str]:
    """A line for each topic with partitions that no task reads."""
    for topic, parts in unread.items():
        numbers = " ".join(sorted(parts, key=int))
        yield f"not read: {topic} {numbers} ({counted(sum(parts.values()), 'record')})"


def _global_copies(instances: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """The lag of each member's copy of each global table, by topic and member."""
    found: dict[str, dict[str, int]] = {}
    for member in (member for instance in instances for member in instance["members"]):
        for topic, lag in (member["global_tables"] or {}).items():
            found.setdefault(topic, {})[member["member"]] = lag
    return found


def _global_tables(copies: dict[str, dict[str, int]]) -> RenderableType:
    rows = [
        (topic, len(lags), max(lags.values()), _most_behind(lags)) for topic, lags in copies.items()
    ]
    return table("GLOBAL TABLE", "COPIES", "HIGHEST LAG", "BY MEMBER", rows=rows)


def _most_behind(lags: dict[str, int]) -> str | None:
    """The members that lag, the one that lags most first."""
    behind = sorted((one for one in lags.items() if one[1]), key=lambda one: -one[1])
    most = " ".join(f"{name}:{lag}" for name, lag in behind[:_LAGGING_SHOWN])
    return (most + (" …" if len(behind) > _LAGGING_SHOWN else "")) or None


def _names(instances: list[dict[str, Any]]) -> dict[str, str]:
    """The members' names by member id."""
    members = (member for instance in instances for member in instance["members"])
    return {one["member_id"]: one["member"] for one in members if one["member_id"]}


def _violation_text(violation: dict[str, Any], names: dict[str, str]) -> str:
    """A violation with its tasks and members, which have their names in place of their ids."""
    members = [names.get(member, member) for member in violation["members"]]
    text: str = violation["text"]
    for member_id, name in names.items():
        text = text.replace(member_id, name)
    where = " ".join([*violation["tasks"], *members])
    return f"{text}{f' ({where})' if where else ''}"
