"""Protobuf messages in the framing of a schema registry, by their generated classes."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from streamlet.arguments import told_by_form
from streamlet.errors import SerdeError
from streamlet.registry.framing import RecordFormat, Subject, framed
from streamlet.registry.schemas import RegistrySchema, Schemas
from streamlet.serdes.serde import Serde, build

#: Numbers of a message in its file: messages nest, and no deeper than this.
_DEEPEST = 32
#: Bytes of a message that nests no deeper than Protobuf reads: a hundred levels, two bytes each.
_SURELY_READ = 200
#: Messages of a file, and letters of a name, at most.
_MOST_MESSAGES, _LONGEST_NAME = 10_000, 1_000
#: What is not closed goes on to the end: nothing is read twice.
_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)"
    r'|"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n])*\'?|[\w.]+|[{}]',
    re.S,
)


@told_by_form
def protobuf(
    of: Any,
    *,
    registry: Schemas | None = None,
    subject: Subject = "topic",
    register: bool = True,
) -> Serde[Any]:
    """Messages of a generated class in the framing of a schema registry; needs ``registry``.

    What a writer's schema has more or less than the class is Protobuf's own matter: unknown fields
    are kept, missing ones have their defaults.

    Args:
        of: the class.
        registry: asked for schemas; None: that of the environment, ``SCHEMA_REGISTRY_URL``.
        subject: as for ``avro``; the record's name is the message's full name.
        register: register the schema when it is not there, with the files that it imports; else
            that is an error.

    Raises:
        SerdeError: it is no such class, or its file imports others than Google's own.
        ConfigError: there is no such strategy for subjects.
    """
    descriptor: Any = getattr(of, "DESCRIPTOR", None)
    if not isinstance(of, type) or not hasattr(descriptor, "full_name"):
        raise SerdeError(f"protobuf: {of!r} is no class that protoc generated")
    numbers, nests = _written(_numbers(descriptor)), _nests(descriptor)
    name = str(descriptor.full_name)

    def decode(raw: bytes) -> Any:
        return of.FromString(raw)  # type: ignore[attr-defined]

    def encode(value: Any) -> bytes:
        raw: bytes = value.SerializeToString(deterministic=True)
        if nests and len(raw) > _SURELY_READ:
            of.FromString(raw)  # type: ignore[attr-defined]
        return raw

    def reader(written: RegistrySchema) -> Callable[[bytes], Any]:
        names = _Messages(written.text)

        def read(raw: bytes) -> Any:
            path, at = _read_numbers(raw)
            found = names.at(path)
            if found is not None and found != name:
                raise SerdeError(f"protobuf({name}): the record is a {found}")
            return messages.decode(raw[at:])

        return read

    def serde_of(write: Callable[[Any], bytes]) -> Serde[Any]:
        return build(f"protobuf({name})", write, decode, accepts=frozenset({of}))

    messages = serde_of(encode)
    bare = attrs.evolve(
        serde_of(lambda value: numbers + encode(value)),
        fast_copy=lambda value: None if value is None else messages.copy(value),
    )
    own = RegistrySchema("PROTOBUF", _text(descriptor.file))
    return framed(RecordFormat("PROTOBUF", bare, name, own, reader), registry, subject, register)


def _text(file: Any) -> str:
    """The schema of a file: its descriptor, which registries take as base64."""
    foreign = [one.name for one in file.dependencies if not one.name.startswith("google/protobuf/")]
    if foreign:
        raise SerdeError(
            f"protobuf: {file.name} imports {foreign[0]}: put the messages into one file"
        )
    return base64.b64encode(file.serialized_pb).decode()


def _nests(descriptor: Any) -> bool:
    """True if messages of a type, or of one in it, may contain others of their own type."""
    done = set[str]()

    def meets(one: Any, above: frozenset[str]) -> bool:
        if one.full_name in above or one.full_name in done:
            return one.full_name in above
        inner = [field.message_type for field in one.fields if field.message_type is not None]
        found = any(meets(each, above | {one.full_name}) for each in inner)
        done.add(one.full_name)
        return found

    return meets(descriptor, frozenset())


def _numbers(descriptor: Any) -> list[int]:
    """The numbers of a message among its siblings, from the outermost on."""
    numbers: list[int] = []
    while descriptor is not None:
        outer = descriptor.containing_type
        siblings = outer.nested_types if outer else descriptor.file.message_types_by_name.values()
        numbers.insert(0, [one.name for one in siblings].index(descriptor.name))
        descriptor = outer
    return numbers


def _written(numbers: list[int]) -> bytes:
    """The numbers as records have them: how many, then each; the first message alone is a 0."""
    if numbers == [0]:
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(numbers), *numbers))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _read_numbers(raw: bytes) -> tuple[tuple[int, ...], int]:
    """The numbers in front of a message, and where it begins.

    Raises:
        ValueError: there are none.
    """
    count, at = _read_number(raw, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= _DEEPEST:
        raise ValueError(f"{count} numbers of a message")
    numbers = []
    for _ in range(count):
        number, at = _read_number(raw, at)
        numbers.append(number)
    return tuple(numbers), at


def _read_number(raw: bytes, at: int) -> tuple[int, int]:
    found = 0
    for place in range(5):
        if at + place >= len(raw):
            raise ValueError("the record ends before its message")
        byte = raw[at + place]
        found |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at + place + 1
    raise ValueError("a number of a message is too long")


class _Messages:
    """The full names of the messages of a schema, by their numbers."""

    def __init__(self, text: str) -> None:
        self._names: dict[tuple[int, ...], str] = {}
        for path, name in _named(text):
            deep, long = len(path) > _DEEPEST, len(name) > _LONGEST_NAME
            if deep or long or len(self._names) >= _MOST_MESSAGES:
                raise SerdeError(
                    "protobuf: the registry's schema has too many messages, or too deep"
                )
            self._names[path] = name

    def at(self, path: tuple[int, ...]) -> str | None:
        """The name of the message there; None where the schema cannot be read.

        Raises:
            ValueError: there is none.
        """
        if self._names and path not in self._names:
            raise ValueError(f"the writer's schema has no message {list(path)}")
        return self._names.get(path)


def _named(text: str) -> Iterator[tuple[tuple[int, ...], str]]:
    """Each message of a schema's text with its numbers."""
    if "{" not in text:
        yield from _of_descriptor(text)
        return
    tokens = [one for one in _TOKEN.findall(text) if one[0] not in "/\"'"]
    package = ""
    #: The numbers and the name of each open brace, empty for those of no message; how many inside.
    open_: list[tuple[tuple[int, ...] | None, str, int]] = [((), "", 0)]
    for index, token in enumerate(tokens):
        if token == "package" and len(open_) == 1 and index + 1 < len(tokens):
            package = tokens[index + 1]
        elif token == "{":
            numbers, outer, inside = open_[-1]
            if numbers is not None and index > 1 and tokens[index - 2] == "message":
                own, name = (*numbers, inside), f"{outer}.{tokens[index - 1]}"
                open_[-1] = numbers, outer, inside + 1
                open_.append((own, name, 0))
                yield own, f"{package}{name}" if package else name[1:]
            else:
                open_.append((None, outer, 0))
        elif token == "}" and len(open_) > 1:
            open_.pop()


def _of_descriptor(text: str) -> Iterator[tuple[tuple[int, ...], str]]:
    """Each message of a descriptor in base64; none where it is something else."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except Exception as error:  # what others wrote: base64, UTF-8 or the message may be broken
        raise SerdeError(
            f"protobuf: the registry's schema cannot be read: {error!r:.100}"
        ) from error
    todo: list[tuple[tuple[int, ...], str, Any]] = [
        ((at,), file.package, one) for at, one in enumerate(file.message_type)
    ]
    while todo:
        path, outer, message = todo.pop()
        name = f"{outer}.{message.name}" if outer else message.name
        yield path, name
        todo += [((*path, at), name, one) for at, one in enumerate(message.nested_type)]
