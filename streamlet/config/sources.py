"""The sources of settings: code, a properties file, the environment, the command line.

All of them are read to the end and every problem is kept, with where it was found.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from streamlet.bounded import MORE_PROBLEMS, MOST_PROBLEMS, shortened
from streamlet.config import topic_properties
from streamlet.config.client_properties import CLIENT_PROPERTIES
from streamlet.config.client_words import client_answer
from streamlet.config.kafka_streams import CLIENT_WIDE, ELSEWHERE, answer, client_property
from streamlet.config.security import is_security, resolve
from streamlet.config.values import ValueKind
from streamlet.given_files import bytes_of
from streamlet.user_code import shown

#: Key, value and place of one entry: of a properties file, or of an option of a command.
Entry: TypeAlias = tuple[str, str, str]
FileEntries: TypeAlias = Sequence[Entry]

ENVIRON_PREFIX = "STREAMLET_"
CLIENTS = ("consumer", "producer", "admin")
#: Consumers of one purpose each, which are "consumer" as well.
CONSUMERS = ("main.consumer", "restore.consumer", "global.consumer")
PREFIXES = (*CLIENTS, *CONSUMERS, topic_properties.PREFIX)

#: Variables of commands' options that are called almost like that of a setting.
_OPTIONS = frozenset({"STREAMLET_SCALE_DOWN_TIMEOUT"})

_ISOLATION = ("read_uncommitted", "read_committed")
#: Client-wide settings that the connection to the group's coordinator has, too.
_OF_GROUP = ("client.id", "client.dns.lookup")

#: What streamlet must decide itself, and where the say of the user is.
_OURS = {
    "bootstrap.servers": "bootstrap.servers",
    "group.id": "the application's id",
    "group.instance.id": "group.instance.id",
    "session.timeout.ms": "session.timeout.ms",
    "heartbeat.interval.ms": "heartbeat.interval.ms",
    "max.poll.interval.ms": "max.poll.interval.ms",
    "auto.offset.reset": "auto.offset.reset",
    "transactional.id": "processing.guarantee",
    "transaction.timeout.ms": "transaction.timeout.ms",
    "enable.idempotence": None,
    "enable.auto.commit": None,
    "enable.auto.offset.store": None,
    "partition.assignment.strategy": None,
    "group.protocol": None,
    "partitioner": "the partitioner= of a sink",
}

#: Problems before which a key that is unknown is compared with those that are known.
_MOST_HINTS = 100
#: So alike are a misspelt key and the one that is meant; below it another one would be named.
_ALIKE = 0.8
#: Keys that begin with an unknown one, and are named together, at most.
_MOST_MEANT = 3


@attrs.define
class Found:
    """The settings of all sources together; the strongest value of each key."""

    values: dict[str, Any] = attrs.field(factory=dict)
    security: dict[str, Any] = attrs.field(factory=dict)
    #: Where each setting of security was found.
    places: dict[str, str] = attrs.field(factory=dict)
    clients: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    client_wide: dict[str, Any] = attrs.field(factory=dict)
    topics: dict[str, dict[str, str]] = attrs.field(factory=dict)
    problems: list[str] = attrs.field(factory=list)
    #: What is missing among settings of security, a line each.
    lacking: list[str] = attrs.field(factory=list)

    @property
    def hints(self) -> bool:
        """True as long as what was probably meant is looked for: that takes a ms for each key."""
        return len(self.problems) < _MOST_HINTS


def read(
    kinds: Mapping[str, ValueKind[Any]],
    values: Mapping[str, object],
    file: Path | FileEntries | None,
    environ: Mapping[str, str],
    overrides: Sequence[str | Entry],
) -> Found:
    """Read every source, weak ones first."""
    found = Found()
    for key, value in values.items():
        _take(found, kinds, str(key), value, str(key))
    for key, text, where in file_entries(file, found.problems):
        _take(found, kinds, key, text, where)
        if len(found.problems) >= MOST_PROBLEMS:
            found.problems.append(MORE_PROBLEMS)
            return found
    for name, text in sorted(_variables(found.problems, environ)):
        _take_variable(found, kinds, name, text)
    what = "a list of texts such as 'key=value'"
    for override in _listed(found.problems, "overrides", overrides, what, _is_override):
        if not isinstance(override, str):
            _take(found, kinds, *override)
            continue
        key, separator, text = override.partition("=")
        if separator and key.strip():
            _take(found, kinds, key.strip(), text.strip(), f"--set {key.strip()}")
        else:
            found.problems.append(f"--set {override}: expected key=value")
    _spread_client_wide(found)
    found.security, given = resolve(found.security, found.places)
    found.problems += given.problems
    found.lacking = given.lacking
    return found


def _listed(
    problems: list[str], name: str, given: Any, expected: str, fits: Callable[[object], bool]
) -> list[Any]:
    """The entries that a program gives; none, and a problem, where they are something else."""
    listed = isinstance(given, Iterable) and not isinstance(given, str)
    entries = [*given] if listed else []
    if listed and all(map(fits, entries)):
        return entries
    problems.append(f"{name}: expected {expected}, got {shown(given)}")
    return []


def _variables(problems: list[str], given: Mapping[Any, Any]) -> list[tuple[str, str]]:
    """The variables that a program gives, without those that are no texts: each is a problem."""
    found = []
    for name, text in given.items():
        if isinstance(name, str) and isinstance(text, str):
            found.append((name, text))
        else:  # the value may be a secret
            got = f"{shown(name)} with a value of type {type(text).__name__}"
            problems.append(f"environ: expected texts by name, such as os.environ, got {got}")
    return found


def _is_entry(one: object) -> bool:
    return isinstance(one, tuple) and list(map(type, one)) == [str, str, str]


def _is_override(one: object) -> bool:
    return isinstance(one, str) or _is_entry(one)


def _take(
    found: Found, kinds: Mapping[str, ValueKind[Any]], key: str, value: Any, where: str
) -> None:
    """One key and value of one source."""
    prefix, own_key = _split_prefix(key)
    if key in kinds:
        if value is None:
            found.values.pop(key, None)
            return
        try:
            found.values[key] = kinds[key].parse(value)
        except ValueError as error:
            text = "(not shown)" if kinds[key].secret else shown(value)
            found.problems.append(f"{where} = {text}: {error}")
    elif is_security(key):
        _take_security(found, key, value, where)
    elif key in CLIENT_WIDE:
        _take_client_wide(found, key, value, where)
    elif prefix == topic_properties.PREFIX and key not in CLIENT_PROPERTIES:
        _take_topic(found, own_key, value, where)
    elif prefix and prefix != topic_properties.PREFIX:
        _take_property(found, prefix, own_key, value, where)
    else:
        found.problems.append(f"{where}: {unknown(key, kinds if found.hints else ())}")


def _split_prefix(key: str) -> tuple[str, str]:
    """The prefix of a key that has one, and what follows it; else both are empty."""
    for prefix in PREFIXES:
        own_key = key.removeprefix(prefix + ".")
        if own_key and own_key != key:
            return prefix, own_key
    return "", ""


def _take_client_wide(found: Found, key: str, value: Any, where: str) -> None:
    """One setting that all clients get; None as a value means their default."""
    if value is None:
        found.client_wide.pop(key, None)
        return
    try:
        found.client_wide[key] = client_property(key, value)
    except ValueError as error:
        found.problems.append(f"{where} = {shown(value)}: {error}")


def _take_property(found: Found, client: str, own_key: str, value: Any, where: str) -> None:
    """One property of one kind of client."""
    isolation = own_key == "isolation.level"
    if own_key in _OURS:
        place = _OURS[own_key]
        hint = f"use {place}" if place else "nothing else works"
        hint = f"give {own_key} without the prefix" if place == own_key else hint
        found.problems.append(f"{where}: streamlet sets {own_key} itself, {hint}")
    elif own_key not in CLIENT_PROPERTIES:
        found.problems.append(f"{where}: {_unknown_property(client, own_key, found.hints)}")
    elif isolation and client in CONSUMERS:
        found.problems.append(f"{where}: use consumer.{own_key}, it goes for all of them")
    elif isolation and client == "consumer" and value not in _ISOLATION:
        found.problems.append(f"{where} = {shown(value)}: expected {' or '.join(_ISOLATION)}")
    else:
        found.clients.setdefault(client, {})[own_key] = value


def _spread_client_wide(found: Found) -> None:
    """Give each client what goes to all, where it has nothing of its own; the group its name."""
    for client in CLIENTS:
        own = found.clients.get(client, {})
        if both := dict(found.client_wide.values()) | own:
            found.clients[client] = both
    if of_group := dict(found.client_wide[key] for key in _OF_GROUP if key in found.client_wide):
        found.clients["group"] = of_group


def _take_topic(found: Found, own_key: str, value: Any, where: str) -> None:
    """One setting of internal topics; None as a value means the default."""
    try:
        topic, name = topic_properties.placed(own_key)
    except ValueError as error:
        found.problems.append(f"{where}: {error}")
        return
    if value is None:
        found.topics.get(topic, {}).pop(name, None)
        return
    try:
        read = topic_properties.TOPIC_PROPERTIES[name].parse(value)
    except ValueError as error:
        found.problems.append(f"{where} = {shown(value)}: {error}")
    else:
        found.topics.setdefault(topic, {})[name] = printed(read)


def _take_security(found: Found, key: str, value: Any, where: str) -> None:
    """One setting of security, as it is; None as a value means that it is not given."""
    found.security.pop(key, None)
    if value is not None:
        found.security[key], found.places[key] = value, where


def _take_variable(found: Found, kinds: Mapping[str, ValueKind[Any]], name: str, text: str) -> None:
    """One variable of the environment; an empty one counts as not set."""
    if not name.startswith(ENVIRON_PREFIX) or not text or name in _OPTIONS:
        return
    key = name.removeprefix(ENVIRON_PREFIX).lower().replace("_", ".")
    if key in kinds or is_security(key) or key in CLIENT_WIDE or _split_prefix(key)[0]:
        _take(found, kinds, key, text, name)
        return
    # Commands have variables of their own, so a strange name is fine, but a misspelt one is not.
    close = difflib.get_close_matches(key, kinds if found.hints else (), n=1, cutoff=0.9)
    if close:
        found.problems.append(f"{name}: unknown, did you mean {variable(close[0])}?")


def variable(key: str) -> str:
    """The variable of the environment that sets a key."""
    return ENVIRON_PREFIX + key.replace(".", "_").upper()


def unknown(key: str, known: Iterable[str]) -> str:
    """The message for a key that does not exist, with the one that was probably meant."""
    keys = list(known)
    plain = re.sub(r"[_\-. ]+", ".", key.strip().lower())
    if plain in keys:
        return f"unknown setting, did you mean {plain}?"
    there = answer(key) or answer(plain)
    if there is not None:
        return f"unknown setting, {there}"
    if plain in topic_properties.TOPIC_PROPERTIES:
        return f"unknown setting, did you mean {topic_properties.PREFIX}.{plain}?"
    client, _, rest = plain.partition(".")
    close = difflib.get_close_matches(client, PREFIXES if keys else (), n=1, cutoff=0.7)
    if close and rest:
        return f"unknown setting, did you mean {close[0]}.{rest}?"
    close = difflib.get_close_matches(plain, keys, n=1, cutoff=_ALIKE)
    meant = close or [one for one in keys if one.startswith(f"{plain}.")]
    if not 0 < len(meant) <= _MOST_MEANT:
        return "unknown setting"
    return f"unknown setting, did you mean {' or '.join(meant)}?"


def _unknown_property(client: str, name: str, hints: bool) -> str:
    """The message for a name that follows a client's prefix, and that no client knows."""
    plain = re.sub(r"[_\-. ]+", ".", name.strip().lower())
    there = ELSEWHERE.get(plain) or client_answer(plain, client)
    if there is not None:
        return f"unknown setting of Kafka's client (librdkafka), {there}"
    properties = CLIENT_PROPERTIES if hints else ()
    known = (plain, *difflib.get_close_matches(plain, properties, n=1, cutoff=_ALIKE))
    meant = next((one for one in known if one in CLIENT_PROPERTIES), None)
    hint = "" if meant is None else f", did you mean {client}.{meant}?"
    return f"unknown setting of Kafka's client (librdkafka){hint}"


def file_entries(file: Path | FileEntries | None, problems: list[str]) -> Iterator[Entry]:
    """Key, value and place of each entry of a properties file, which may have been read before."""
    if not isinstance(file, Path):
        yield from _listed(problems, "file", () if file is None else file, "a Path", _is_entry)
        return
    try:
        text = bytes_of(file).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        problems.append(f"{file}: cannot be read ({reason})")
        return
    seen: set[str] = set()
    for number, line in _logical_lines(text):
        key, separator, value = _split(line)
        where = f"{file}:{number}: {shortened(key)}"
        if len(problems) >= MOST_PROBLEMS:
            problems.append(MORE_PROBLEMS)
            return
        if not separator:  # not shown: it may be a part of a secret that has several lines
            problems.append(f"{file}:{number}: expected key=value")
        elif key in seen:
            problems.append(f"{where}: given twice in this file")
        else:
            yield key, value, where
        seen.add(key)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; comments left out, lines ended by a backslash joined."""
    begun: list[str] = []
    start = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not begun:
            start = number
            if not line or line[0] in "#!":
                continue
        if line.endswith("\\"):
            begun += [line[:-1]] if begun or line != "\\" else []
        else:
            yield start, "".join((*begun, line))
            begun = []
    if begun:
        yield start, "".join(begun)


def _split(line: str) -> tuple[str, str, str]:
    match = re.match(r"([^=:\s]+)\s*([=:]|\s)\s*(.*)", line)
    return (match[1], match[2], match[3]) if match else (line, "", "")


def printed(value: object) -> str:
    """A default as one would write it in a properties file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
