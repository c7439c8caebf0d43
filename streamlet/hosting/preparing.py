"""Prepares an instance before its workers start: its group, its topics, this host's folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from streamlet.admin.dead_members import DeadMembers
from streamlet.admin.members import SETTLE_MS, removal_hint, remove_left_over
from streamlet.admin.window import ApplicationInfo
from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.config.relations import missing_tags
from streamlet.control.changelog_types import check_types
from streamlet.control.topic import prepare_control
from streamlet.control.values import Mark, Part
from streamlet.coordinator.member_config import static_members
from streamlet.errors import (
    BrokerError,
    ConfigError,
    NotFoundError,
    RefusedError,
    StateError,
    StreamletError,
)
from streamlet.hosting.adoption import adopt_folders, discard_before_reset, discard_old
from streamlet.hosting.clients import admin_for, open_control, open_window
from streamlet.logs import get_logger
from streamlet.rebalance.numbering import difference, refusal
from streamlet.runtime.catalog import Catalog
from streamlet.state.directory import FolderLock, StateDirectory, number_in
from streamlet.topology.graph import Topology
from streamlet.user_code import listed

log = get_logger(__name__)

#: A worker that crashed is back on its state after a second or two. Others restore so much state
#: from changelogs in less, bytes: some 20 MB/s.
SMALL_STATE = 8_000_000

#: Members of an earlier run that are looked for at most, whatever the file of its lock says.
_MOST_MEMBERS = 1_000


def check_supported(settings: Settings) -> None:
    """Refuse settings that this version, or this instance, cannot carry out.

    Raises:
        ConfigError: naming each of them.
    """
    if problems := missing_tags(settings):
        raise ConfigError(problems)


def check_topics(
    topology: Topology, settings: Settings, before: Callable[[], None] | None
) -> dict[str, int]:
    """Check the topics, and create those that are ours; partition counts of those that are read.

    ``before`` is called when all are checked and none is made; it may refuse the start.

    Raises:
        BrokerError: the broker does not answer, or lacks a topic.
        TopologyError: the topology does not fit the topics.
    """
    catalog = Catalog(topology, admin_for(settings), settings)
    catalog.prepare(before)
    return {topic: catalog.counts[topic] for topic in catalog.inputs}


def dead_members(application: str, settings: Settings) -> DeadMembers | None:
    """Removes the members of workers that crashed; None with static ids, which await a restart.

    Others have the tasks meanwhile where that is quicker than the restart: where they keep standbys
    of them, or where there is little state to restore.
    """
    if settings.group_instance_id is not None:
        return None
    directory = StateDirectory(settings.state_dir, application)

    def at_once() -> bool:
        if settings.num_standby_replicas:
            return True
        try:
            return sum(folder.bytes for folder in directory.tasks()) < SMALL_STATE
        except StateError as error:  # files come and go beneath the look
            log.debug("the size of the state is unknown: %s", error)
            return False

    window = partial(open_window, ApplicationInfo(application, settings), "dead-member")
    return DeadMembers(window, at_once)


def clear_left_over(
    topology: Topology, settings: Settings, process_id: str, lock: FolderLock, members: int
) -> None:
    """Remove the instance's static ids that none of its members has this time, and note the new.

    They would keep their tasks for a session timeout: it runs fewer workers than before, or has
    another static id, or none any more. What cannot be removed now ends with its session. A plain
    restart asks no other member.

    Args:
        topology: what is run.
        settings: the application's.
        process_id: the instance's.
        lock: of its folder, where it is noted.
        members: how many members it runs.
    """
    static = settings.group_instance_id
    ran = min(number_in(lock.fields, "members"), _MOST_MEMBERS)
    before = str(lock.fields.get("instance_id", "")), ran
    now = (static or "", members)
    if before == now or not (static or before[0]):
        return
    try:
        with open_window(ApplicationInfo(topology.application, settings), "start") as window:
            members_now = static_members(static, members)
            removed = remove_left_over(
                window, members_now, process_id, static, static_members(*before)
            )
    except BrokerError as error:
        log.warning("looking for members of an earlier run: %s", error)
        return
    lock.set(instance_id=now[0], members=members)
    for one, problem in removed.items():
        outcome = "it was removed" if problem is None else f"it could not be removed: {problem}"
        log.warning("%s is a member of an earlier run of this instance, %s", one, outcome)


def prepare_instance(
    topology: Topology, settings: Settings, instance: str, lock: FolderLock, clock: Clock
) -> None:
    """Do what must be done before any worker of the instance starts, or refuse it.

    Compares its topology with the group's and with its changelogs, makes the control topic, removes
    the instance's mark (to start it is to want it), notes the last shutdown, discards state that is
    too old or from before a reset, and renames folders of an earlier topology.

    Args:
        topology: what is run.
        settings: the application's.
        instance: the instance's process id.
        lock: of its folder, where it is noted which reset and which stores the state stems from.
        clock: the time, to tell which state is too old.

    Raises:
        BrokerError: the broker does not answer.
        TopologyError: the control topic cannot be used.
        RefusedError: a reset was not finished, or others run a topology with other numbers.
        StateMismatchError: a folder, or a changelog, does not fit the topology.
        StateError: state cannot be deleted or renamed.
    """
    application = topology.application
    directory = StateDirectory(settings.state_dir, application)
    _check_group(topology, settings, instance, directory)
    prepare_control(admin_for(settings), application, replication=settings.replication_factor)
    with open_control(application, settings) as control:
        view = control.read()
        discard_before_reset(directory, lock, view.reset)
        if other := of_another(topology, view.parts):
            log.warning(
                "%s ran another program before, with %s: this one has no topic and no store in "
                "common with it. What the other one left stays; give each application a name of "
                "its own",
                *(application, listed(other)),
            )
        types = topology.changelog_types
        check_types(types, view, control.ids_of(one.changelog for one in types))
        if view.shutdown is not None:
            lock.set(shutdown=view.shutdown.text)  # it was meant for those that ran then
        max_age_ms = settings.state_cleanup_dir_max_age_ms
        discard_old(directory, topology, max_age_ms, clock.wall_ms())
        adopt_folders(directory, lock, topology)
        if instance in view.marks:
            control.remove((Mark, instance))
            control.flush()


def of_another(topology: Topology, before: Iterable[Part]) -> list[str]:
    """The topics and stores of the program that ran before, if it was another application's.

    Args:
        topology: what is run.
        before: the subtopologies that the leader noted which ran last.

    Returns:
        Names; none where the two programs have one in common, or one of them has none.
    """
    theirs = set[str]().union(*(part.topics_and_stores for part in before))
    stores = (store.name for part in topology.subtopologies for store in part.stores)
    ours = {*topology.source_topics, *stores}
    return sorted(theirs) if ours and ours.isdisjoint(theirs) else []


def _check_group(
    topology: Topology, settings: Settings, instance: str, directory: StateDirectory
) -> None:
    """Refuse a topology that cannot run beside that of the instances that run.

    Members of an earlier run of this instance do not count, once they have let go of its folders.
    Where the group cannot be read now, its leader refuses.

    Raises:
        RefusedError: naming what differs, and the instances.
    """
    ended = all(folder.holder is None for folder in directory.folders())
    try:
        with open_window(ApplicationInfo(topology.application, settings), "start") as window:
            members = window.settled(SETTLE_MS).members
    except NotFoundError:
        return
    except BrokerError as error:
        if error.passing:
            raise
        log.warning("starting without a look at the group: %s", error)
        return
    ours = [part.belongings for part in topology.subtopologies]
    found = [
        (member, differs)
        for member in members
        if not (ended and member.reported.instance == instance)
        and (differs := difference(ours, member.reported.belongings))
    ]
    if found:
        names = ", ".join(sorted({member.reported.name for member, _ in found}))
        static = sorted(filter(None, (member.described.instance_id for member, _ in found)))
        hint = removal_hint(topology.application, static)
        raise RefusedError(refusal(found[0][1].here, f" ({names})") + hint)


def forget_instance(application: str, settings: Settings, instance: str) -> None:
    """Remove the mark of an instance that has left; if that fails, the group's leader will."""
    try:
        with open_control(application, settings) as control:
            if instance in control.read().marks:
                control.remove((Mark, instance))
                control.flush()
    except StreamletError as error:
        log.warning("the mark of this instance stays for a while: %s", error)
