"""The page that plays a simulation: one HTML file, which needs no network and no server.

Its policy allows the one style and the one script that are in it, by their SHA-256, and nothing
else. What was played lies in it as JSON, which the script shows as text only.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import Any

#: The live page's style and its making of elements come first.
_STYLES = (("streamlet.web.live", "page.css"), ("streamlet.testing.simulation", "playback.css"))
_SCRIPTS = (("streamlet.web.live", "elements.js"), ("streamlet.testing.simulation", "playback.js"))


def playback_page(playback: Mapping[str, Any]) -> bytes:
    """Return the HTML file that plays a run, of which ``playback`` is the document."""
    style = "".join(_text(*one) for one in _STYLES)
    script = "".join(_text(*one) for one in _SCRIPTS)
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    page = Template(_text("streamlet.testing.simulation", "playback.html"))
    whole = page.substitute(policy=policy, style=style, script=script, data=_data(playback))
    return whole.encode()


def _text(package: str, name: str) -> str:
    return (files(package) / "page" / name).read_text("utf-8")


def _source(text: str) -> str:
    """The source of a policy that allows this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data(playback: Mapping[str, Any]) -> str:
    """JSON in ASCII in which no tag can begin or end."""
    return json.dumps(playback, separators=(",", ":")).replace("<", "\\u003c")
