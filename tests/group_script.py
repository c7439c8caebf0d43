"""Plays scripts of group requests against anything that answers them, and writes down the answers.

The same script runs against the fake coordinator and against a real broker; both must answer what
the script says. A script is text, one step a line, ``#`` begins a comment::

    session 6000                        the timeouts the following joins ask for, ms
    rebalance 4000
    static A=i1 A2=i1                   clients with a static id; A2 is what A is after a restart
    A enters a -> ok g1 leads A=a       join, and join again with the id that was handed out
    A sync A=x -> ok x                  the leader brings assignments, followers none
    B join b -> MEMBER_ID_REQUIRED
    B join b -> parked                  no answer yet …
    A join a -> ok g2 leads A=a B=b
    B gets ok g2 follows                … here it is
    A heartbeat | leave                 B commit t/0=5 [gen=-1] [as=none]
    B fetch t/0 -> ok t/0=5
    wait 1500                           B hangs up (the connection for joins is cut)
    restart                             the coordinator crashes and comes back

Metadata are words, ``*900000`` is that many bytes, ``p:a,q:b`` are two protocols, ``type=…`` and
``session=…`` override. The generation of a request is the last one its client got; ``gen=`` is
relative to it, ``gen=none`` means -1. ``as=C`` uses the member id of C, ``as=none`` none,
``as=stranger`` an unknown one; ``bare`` leaves the static id out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Protocol

import attrs

from streamlet.coordinator.codes import name_of
from streamlet.coordinator.events import Connection
from streamlet.coordinator.messages import (
    Answer,
    Heartbeat,
    HeartbeatAnswer,
    JoinGroup,
    JoinGroupAnswer,
    LeaveGroup,
    LeaveGroupAnswer,
    OffsetCommit,
    OffsetCommitAnswer,
    OffsetFetch,
    OffsetFetchAnswer,
    Request,
    SyncGroup,
    SyncGroupAnswer,
)
from streamlet.types import TopicPartition


class Wire(Protocol):
    """Carries the requests of named clients.

    ``limit_ms`` is how long to wait for an answer; ``parked_ms`` how long none must come before a
    request counts as parked.
    """

    limit_ms: int
    parked_ms: int

    def send(self, client: str, request: Request, connection: Connection) -> Future[Answer]:
        """Send; the future may never be done."""
        ...

    def hang_up(self, client: str) -> None:
        """Cut the client's connection for joins."""
        ...

    def wait(self, ms: int) -> None:
        """Let time pass."""
        ...

    def restart(self) -> None:
        """Crash the coordinator and bring it back."""
        ...


@attrs.define
class _Client:
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    protocol: str = "p"
    parked: Future[Answer] | None = None


class ScriptFailed(AssertionError):
    """An answer was not what the script says."""


@attrs.define
class GroupScript:
    """One run of a script. ``answers`` is what came, a line for each step that has an answer."""

    wire: Wire
    group: str
    answers: list[str] = attrs.field(factory=list)
    _clients: dict[str, _Client] = attrs.field(factory=dict)
    _session_ms: int = 6_000
    _rebalance_ms: int = 6_000

    def play(self, text: str) -> list[str]:
        """Run every line.

        Raises:
            ScriptFailed: at the first answer that differs from what the line says.
        """
        for number, raw in enumerate(text.splitlines(), start=1):
            line = raw.partition("#")[0].strip()
            if line:
                self._step(line, number)
        return self.answers

    def _step(self, line: str, number: int) -> None:
        action, arrow, expected = (part.strip() for part in line.partition("->"))
        words = action.split()
        match words:
            case ["session", ms]:
                self._session_ms = int(ms)
            case ["rebalance", ms]:
                self._rebalance_ms = int(ms)
            case ["static", *pairs]:
                for pair in pairs:
                    name, _, instance = pair.partition("=")
                    self._client(name).instance_id = instance
            case ["wait", ms]:
                self.wire.wait(int(ms))
            case ["restart"]:
                self.wire.restart()
            case [name, "hangs", "up"]:
                self.wire.hang_up(name)
            case [name, "gets", *rest]:
                parked = self._client(name).parked
                assert parked is not None, f"line {number}: nothing of {name} is parked"
                self._check(name, parked, " ".join(rest), line, number)
            case [name, "enters", *rest]:
                self._outcome(name, self._send(name, "join", rest), self.wire.limit_ms)
                self._check(name, self._send(name, "join", rest), expected, line, number)
            case [name, verb, *rest]:
                assert arrow, f"line {number}: no expectation"
                self._check(name, self._send(name, verb, rest), expected, line, number)
            case _:
                raise AssertionError(f"line {number}: {line!r} is no step")

    def _check(
        self, name: str, future: Future[Answer], expected: str, line: str, number: int
    ) -> None:
        wait_ms = self.wire.parked_ms if expected == "parked" else self.wire.limit_ms
        came = self._outcome(name, future, wait_ms)
        self.answers.append(f"{number}: {name} {came}")
        if came != expected:
            raise ScriptFailed(f"line {number}: {line}\n  but came: {came}")

    def _outcome(self, name: str, future: Future[Answer], wait_ms: int) -> str:
        client = self._client(name)
        try:
            answer = future.result(wait_ms / 1000)
        except FutureTimeoutError:
            client.parked = future
            return "parked"
        if isinstance(answer, JoinGroupAnswer):
            client.member_id = answer.member_id or client.member_id
            if answer.error == 0:
                client.generation = answer.generation
                client.protocol = answer.protocol_name or ""
        return self._show(name, answer)

    # -- requests ------------------------------------------------------------------------------

    def _send(self, name: str, verb: str, words: Sequence[str]) -> Future[Answer]:
        options = dict(w.split("=", 1) for w in words if w.split("=")[0] in _OPTIONS)
        rest = [w for w in words if w.split("=")[0] not in _OPTIONS and w != "bare"]
        client = self._client(name)
        instance = None if "bare" in words else client.instance_id
        member = {"none": "", "stranger": "stranger-1"}.get(options.get("as", ""))
        if member is None:
            member = self._client(options.get("as", name)).member_id
        shift = options.get("gen", "0")
        generation = -1 if shift == "none" else client.generation + int(shift)
        request: Request
        if verb == "join":
            request = self._join(member, instance, rest[0], options)
            return self.wire.send(name, request, Connection.JOIN)
        if verb == "sync":
            assignments = tuple(
                (self._client(who).member_id, _bytes(what))
                for who, what in (pair.split("=", 1) for pair in rest)
            )
            request = SyncGroup(
                self.group,
                generation,
                member,
                instance,
                options.get("type", "stream"),
                options.get("protocol", client.protocol),
                assignments,
            )
            return self.wire.send(name, request, Connection.JOIN)
        make: dict[str, Callable[[], Request]] = {
            "heartbeat": lambda: Heartbeat(self.group, generation, member, instance),
            "leave": lambda: LeaveGroup(self.group, member, instance),
            "fetch": lambda: OffsetFetch(self.group, tuple(map(_partition, rest))),
            "commit": lambda: OffsetCommit(
                self.group,
                generation,
                member,
                instance,
                {
                    _partition(where): (int(offset), _bytes(options.get("meta", "")).decode())
                    for where, offset in (pair.split("=") for pair in rest)
                },
            ),
        }
        return self.wire.send(name, make[verb](), Connection.MAIN)

    def _join(
        self, member: str, instance: str | None, metadata: str, options: dict[str, str]
    ) -> JoinGroup:
        protocols = tuple(
            (name, _bytes(data)) if colon else ("p", _bytes(part))
            for part in metadata.split(",")
            for name, colon, data in [part.partition(":")]
        )
        return JoinGroup(
            self.group,
            member,
            instance,
            options.get("type", "stream"),
            protocols,
            int(options.get("session", self._session_ms)),
            int(options.get("rebalance", self._rebalance_ms)),
            "script",
        )

    def _client(self, name: str) -> _Client:
        return self._clients.setdefault(name, _Client())

    # -- answers -------------------------------------------------------------------------------

    def _show(self, name: str, answer: Answer) -> str:
        if isinstance(answer, OffsetCommitAnswer):
            return " ".join(sorted({_error(code) for code in answer.errors.values()}))
        if answer.error != 0:
            return _error(answer.error)
        match answer:
            case JoinGroupAnswer():
                return self._show_join(name, answer)
            case SyncGroupAnswer():
                return f"ok {_text(answer.assignment)}".rstrip()
            case OffsetFetchAnswer():
                shown = [
                    f"{partition.topic}/{partition.partition}="
                    + (str(c.offset) if c.error == 0 else _error(c.error))
                    + (f":{_text(c.metadata.encode())}" if c.metadata else "")
                    for partition, c in sorted(answer.committed.items())
                ]
                return " ".join(["ok", *shown])
            case HeartbeatAnswer() | LeaveGroupAnswer():
                return "ok"

    def _show_join(self, name: str, answer: JoinGroupAnswer) -> str:
        words = ["ok", f"g{answer.generation}"]
        words.append("leads" if answer.leader == answer.member_id else "follows")
        if answer.skip_assignment:
            words.append("skip")
        members = [
            f"{self._name_of(m.member_id, m.instance_id)}={_text(m.metadata)}"
            for m in answer.members
        ]
        return " ".join(words + sorted(members))

    def _name_of(self, member_id: str, instance_id: str | None) -> str:
        for name, client in self._clients.items():
            if client.member_id == member_id:
                return name
        # Its own answer has not come yet, so it can only be the newest with that static id.
        waiting = [
            n for n, c in self._clients.items() if instance_id and c.instance_id == instance_id
        ]
        return waiting[-1] if waiting else "?"


_OPTIONS = frozenset({"gen", "as", "type", "protocol", "session", "rebalance", "meta"})


def _error(code: int) -> str:
    return "ok" if code == 0 else name_of(code)


def _bytes(word: str) -> bytes:
    return b"z" * int(word[1:]) if word.startswith("*") else word.encode()


def _text(data: bytes) -> str:
    return f"*{len(data)}" if len(data) > 40 else data.decode()


def _partition(word: str) -> TopicPartition:
    topic, _, number = word.partition("/")
    return TopicPartition(topic, int(number))
