"""Names of nodes, stores and internal topics, the same as Kafka Streams gives them."""

from __future__ import annotations

import re

from streamlet.bounded import TOPIC_CHARACTERS, has_topic_characters
from streamlet.errors import TopologyError, WrongTypeError
from streamlet.user_code import shown

CHANGELOG_SUFFIX = "-changelog"
REPARTITION_SUFFIX = "-repartition"

#: The ends of names of the two topics of a join by foreign keys, made of a given name.
_SUBSCRIPTION_SUFFIXES = ("-subscription-registration-topic", "-subscription-response-topic")
_TOPIC_SUFFIX = "-topic"
#: Those whose names were made up.
_NUMBERED_SUBSCRIPTION = re.compile(
    r"KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d{10}-topic$"
)

#: What an application's id may be: internal topics begin with it.
_APPLICATION = re.compile(r"[A-Za-z0-9._-]{1,150}")
#: The same in words.
APPLICATION_EXPECTED = "expected 1 to 150 letters, digits, dots, dashes, underscores"

#: What a made-up name ends in: the number of the node it was made for; of stores of joins, more.
_NUMBERED = re.compile(r"^(?P<stem>.*-)(?P<number>\d{10})(-store)?$")


#: The beginnings of made-up names.
_MADE_UP = ("KSTREAM-", "KTABLE-", "COGROUPKSTREAM-")


def check_node_name(name: str) -> None:
    """Refuse a ``name=`` that Kafka Streams would refuse, or that looks like a made-up one.

    Raises:
        TopologyError: it is no name of a node.
    """
    if not isinstance(name, str):
        raise WrongTypeError(f"name= expects the name of a node, a text, got {shown(name)}")
    if name.startswith(_MADE_UP):
        raise TopologyError(
            f"name={shown(name)}: names that begin with {', '.join(_MADE_UP)} are made up by "
            "streamlet"
        )
    check_topic_name(name, "name=")


#: For a text that may be a regular expression.
_PATTERN = "; stream(re.compile(...)) reads the topics whose names match a pattern"


def check_topic_name(topic: str, what: str, *, read: bool = False) -> None:
    """Refuse a name that Kafka would refuse later, when the topic is created or asked for.

    Args:
        topic: name of the topic.
        what: what the name was given for, for the message.
        read: whether ``stream`` reads it, which takes patterns, too.

    Raises:
        TopologyError: it is no name of a topic.
    """
    if not isinstance(topic, str):
        raise WrongTypeError(f"{what}: expected a name, a text, got {shown(topic)}")
    if not has_topic_characters(topic):
        raise TopologyError(
            f"{what}: expected ASCII letters, digits, dots, dashes, underscores in a topic's name, "
            f"not {shown(topic)}{_PATTERN if read else ''}"
        )
    if len(topic) > TOPIC_CHARACTERS:
        raise TopologyError(
            f"{what}: topic {shown(topic)} would have {len(topic)} characters, "
            f"Kafka takes {TOPIC_CHARACTERS}"
        )


def is_application_id(name: str) -> bool:
    """True for the id that an application may have."""
    return _APPLICATION.fullmatch(name) is not None and name not in (".", "..")


def changelog_name(application: str, store: str) -> str:
    """Topic that keeps a store's changes."""
    return f"{application}-{store}{CHANGELOG_SUFFIX}"


def repartition_name(application: str, name: str) -> str:
    """The name of a repartition topic between two subtopologies."""
    return f"{application}-{name}{REPARTITION_SUFFIX}"


def subscription_topic(application: str, name: str) -> str:
    """Topic between the sides of a join by foreign keys."""
    return f"{application}-{name}{_TOPIC_SUFFIX}"


def between_suffix(topic: str) -> str:
    """The end of the name of a topic between two subtopologies; "" of any other topic."""
    for suffix in (REPARTITION_SUFFIX, *_SUBSCRIPTION_SUFFIXES):
        if topic.endswith(suffix):
            return suffix
    return _TOPIC_SUFFIX if _NUMBERED_SUBSCRIPTION.search(topic) else ""


def internal_suffix(topic: str) -> str:
    """The suffix of an internal topic, changelogs included."""
    return CHANGELOG_SUFFIX if topic.endswith(CHANGELOG_SUFFIX) else between_suffix(topic)


def may_be_of(topic: str, application: str) -> bool:
    """True if a topic is called like an internal one of an application, which proves nothing."""
    suffix = internal_suffix(topic)
    name = topic.removeprefix(f"{application}-").removesuffix(suffix)
    return bool(suffix and name) and topic == f"{application}-{name}{suffix}"


def is_numbered(name: str) -> bool:
    """True if a name ends in a node's number, as made-up names do."""
    return _NUMBERED.match(name) is not None


def is_made_up(application: str, topic: str) -> bool:
    """True if an internal topic has a made-up name, which ``name=`` and ``store=`` cannot give."""
    name = topic.removeprefix(f"{application}-").removesuffix(internal_suffix(topic))
    return name != topic and name.startswith(_MADE_UP) and is_numbered(name)


def stem(name: str) -> str:
    """A made-up name without its number; a given name as it is."""
    found = _NUMBERED.match(name)
    return found["stem"] if found else name
