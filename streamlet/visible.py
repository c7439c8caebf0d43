"""Text for people in which nothing steers their terminal.

Client ids, hosts, topics, headers and error texts are other people's. With control characters in
them they could clear the screen, fake its lines, set its title or paste what is run.
"""

from __future__ import annotations

import re

#: Text that a header can bear as it is: visible ASCII characters, without spaces.
VISIBLE_ASCII = re.compile(r"[!-~]+")
#: Below space, each has a picture of its own; a line's end and a tab are no harm.
_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
#: Delete, the 8-bit controls, and what ends lines or turns the direction of what follows.
_OTHERS = (
    *range(0x7F, 0xA0),
    0x61C,
    0x200E,
    0x200F,
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
)
_VISIBLE = {**dict.fromkeys(_OTHERS, 0xFFFD), **_PICTURES, 0x7F: 0x2421}
_IN_JSON = {code: f"\\u{code:04x}" for code in _OTHERS}


def visible(text: str) -> str:
    """The text with a visible sign in place of each control character but line ends and tabs."""
    return text if text.isprintable() else text.translate(_VISIBLE)


def visible_line(text: str) -> str:
    """Like ``visible``, as one line."""
    return text if text.isprintable() else text.replace("\n", "␤").translate(_VISIBLE)


def visible_json(document: str) -> str:
    """The same document, with the control characters escaped that JSON allows in strings."""
    return (
        document if document.isascii() and "\x7f" not in document else document.translate(_IN_JSON)
    )
