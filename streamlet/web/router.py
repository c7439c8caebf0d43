"""Answers queries of any key: by a task of this process, or by the instance that has it.

An instance that is asked by another one answers itself or refuses: there is one hop at most. Who
has a task is what members report in the control topic. While a task moves that is late, so members
with copies are asked too, and each refuses what it does not own; it is asked again until the
answer is there, or the time of the query is over. A member that ends, or that its machine keeps
waiting, may take long to refuse: the next one is asked beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeAlias

import attrs
import msgspec

from streamlet.clock import Clock
from streamlet.control.values import MemberKey, StoreServer
from streamlet.queries.local import LocalStore, ReadOptions
from streamlet.queries.metadata import candidates
from streamlet.queries.places import KeyPlaces
from streamlet.state.query_errors import (
    InvalidStateStoreError,
    KeyNotFoundError,
    QueryRefusedError,
    StreamsNotStartedError,
)
from streamlet.tasks.served_tasks import ServedTasks, ServingWorker
from streamlet.types import TaskId
from streamlet.user_code import shown
from streamlet.web.answers import HttpAnswer, document, failure
from streamlet.web.asked import Asked
from streamlet.web.asking import Way, first_answer, may_pass
from streamlet.web.pages import TaskPage, cursor_behind, merged_page
from streamlet.web.reads import StoreRead

#: How long to wait before a task is looked for again, s.
PAUSE_S = 0.02
#: How long one member may take until another is asked beside it, s.
BESIDE_S = 0.03
#: Members that are asked in one search for a task.
MOST_ASKED = 8
#: Tasks that one query of all keys asks at a time.
MOST_AT_ONCE = 8
#: Reads of pages, or of newest state, that may wait at a time.
MOST_READS = 64


#: The way to another member: the entries of its task of a partition, within so many ms. It raises
#: InvalidStateStoreError where the member refuses, or cannot be reached.
AskMember: TypeAlias = Callable[[StoreServer, StoreRead, int, int], Coroutine[Any, Any, TaskPage]]


@attrs.define(eq=False)
class QueryRouter:
    """Answers the queries of one member's server.

    Args:
        served: the tasks of this process.
        member: it.
        ask_member: asks another one.
        threads: make the reads that take long.
        clock: the time.
    """

    served: ServedTasks
    member: MemberKey
    ask_member: AskMember
    threads: Executor
    clock: Clock
    _reading: int = attrs.field(default=0, init=False)

    async def answer(self, asked: Asked) -> HttpAnswer:
        """The answer to a client.

        Raises:
            InvalidStateStoreError: there is none.
        """
        deadline = self.clock.now_ms() + asked.timeout_ms
        await self._begun(deadline)
        store = self._store(asked)
        read = StoreRead.of(asked, store)
        if asked.what == "entries":
            return _page(await self._of_all(store, read, deadline), asked)
        page = merged_page(await self._of_key(store, read, deadline), asked.bounds)
        if asked.what != "value":
            return _page(page, asked)
        for _, entry in page.entries:
            return _value(entry, page)
        absent = KeyNotFoundError(f"store {shown(asked.store)} has no key {shown(asked.key)}")
        return failure(absent, {"position": page.position, "staleness_ms": page.staleness_ms})

    async def answer_here(self, asked: Asked, partition: int) -> HttpAnswer:
        """The answer to another instance, by a task that this one has now.

        Raises:
            InvalidStateStoreError: it does not have the task, or not as far as asked for.
        """
        store = self._store(asked)
        return document(await self._here(store, StoreRead.of(asked, store), partition))

    def worker(self) -> ServingWorker:
        """The worker of this process.

        Raises:
            StreamsNotStartedError: there is none.
        """
        if self.served.worker is None:
            raise StreamsNotStartedError("the worker of this process is starting, or has ended")
        return self.served.worker

    async def _begun(self, deadline: int) -> None:
        """Wait for the worker of this process, which may be starting, while there is time."""
        while self.served.worker is None and self.clock.now_ms() < deadline:
            await asyncio.sleep(PAUSE_S)

    def _store(self, asked: Asked) -> LocalStore:
        options = ReadOptions(
            partition=asked.partition if asked.named else None,
            newest=asked.newest,
            at_least=asked.at_least,
            timeout_ms=asked.timeout_ms if asked.newest else 0,
            max_staleness_ms=asked.max_staleness_ms,
        )
        topology = self.worker().topology
        return LocalStore(self.served, topology, asked.store, None, options, self.clock)

    # Which tasks.

    async def _of_key(self, store: LocalStore, read: StoreRead, deadline: int) -> list[TaskPage]:
        """The answers of the tasks that may have a key; the last one has it, if any does."""
        if read.asked.partition is not None:
            return [await self._of(store, read, read.asked.partition, deadline)]
        places: KeyPlaces = store.places(read.key)
        pages = []
        rest = [] if places.certain else range(store.partitions())
        for partition in dict.fromkeys((*places.partitions, *rest)):
            pages.append(await self._of(store, read, partition, deadline))
            if pages[-1].entries:
                break
        return pages

    async def _of_all(self, store: LocalStore, read: StoreRead, deadline: int) -> TaskPage:
        """The page of all tasks, of which some are asked at a time, so that few pages are here."""
        partition = read.asked.partition
        wanted = iter(range(store.partitions()) if partition is None else [partition])
        found = TaskPage([], more=False)

        async def ask_some() -> None:
            nonlocal found
            for one in wanted:
                page = await self._of(store, read, one, deadline)
                found = merged_page([found, page], read.asked.bounds)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(MOST_AT_ONCE):
                    group.create_task(ask_some())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return found

    # One task.

    async def _of(
        self, store: LocalStore, read: StoreRead, partition: int, deadline: int
    ) -> TaskPage:
        """The answer of one task, wherever it is, once there is one that may answer."""
        task = TaskId(store.part.id, partition)
        while True:
            try:
                ways = self._ways(store, read, task, deadline)
                here = partial(self._here, store, read, partition)
                return await first_answer(ways, here, BESIDE_S)
            except InvalidStateStoreError as error:
                if not may_pass(error) or self.clock.now_ms() >= deadline:
                    raise
            await asyncio.sleep(PAUSE_S)

    def _ways(
        self, store: LocalStore, read: StoreRead, task: TaskId, deadline: int
    ) -> list[Way[TaskPage]]:
        """This process if it has a copy that may answer, then who else may have the task."""
        if task.partition in self.served.tasks(task.subtopology):
            return []
        copied = read.asked.max_staleness_ms is not None and task in self.served.copies.followed
        view = self.worker().view()
        likely = candidates(view, task)
        others = [one for one in view.servers.values() if one.url and one not in likely]
        servers = [one for one in (*likely, *others) if one.key != self.member][:MOST_ASKED]

        def ask(server: StoreServer) -> Way[TaskPage]:
            left_ms = max(deadline - self.clock.now_ms(), 0)
            return partial(self.ask_member, server, read, task.partition, left_ms)

        here = [partial(self._here, store, read, task.partition)] if copied else []
        return [*here, *map(ask, servers)]

    async def _here(self, store: LocalStore, read: StoreRead, partition: int) -> TaskPage:
        call = partial(_read_here, store, read, partition)
        if read.asked.what == "value" and not read.asked.newest:
            return call()
        if self._reading >= MOST_READS:
            raise QueryRefusedError(f"{MOST_READS} reads of pages wait already; ask again")
        self._reading += 1
        reading = asyncio.get_running_loop().run_in_executor(self.threads, call)
        reading.add_done_callback(self._has_read)
        return await asyncio.shield(reading)  # the thread reads on, also if the query has an answer

    def _has_read(self, _: asyncio.Future[TaskPage]) -> None:
        self._reading -= 1


def _read_here(store: LocalStore, read: StoreRead, partition: int) -> TaskPage:
    found = store.ask(partition, read.read)
    page: TaskPage = found.result
    return TaskPage(page.entries, page.more, found.position.to_json(), found.staleness_ms)


def _page(page: TaskPage, asked: Asked) -> HttpAnswer:
    cursor = cursor_behind(page, asked.bounds)
    return document(
        {
            "entries": [entry for _, entry in page.entries],
            "cursor": None if cursor is None else cursor.text,
            "position": page.position,
            "staleness_ms": page.staleness_ms,
        }
    )


def _value(entry: msgspec.Raw, page: TaskPage) -> HttpAnswer:
    found: dict[str, Any] = msgspec.json.decode(entry, type=dict[str, msgspec.Raw])
    return document({**found, "position": page.position, "staleness_ms": page.staleness_ms})
