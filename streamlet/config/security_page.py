"""The tables of ``docs/security.md``: ``python -m streamlet.config.security_page`` writes them."""

from __future__ import annotations

from pathlib import Path

from streamlet.config.java_security import REFUSED, TRANSLATED
from streamlet.config.security import SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
BEGIN = "<!-- Made by `python -m streamlet.config.security_page`; change the tables there. -->\n"
END = "<!-- The end of what is made. -->\n"


def tables() -> str:
    """The tables of settings, in Markdown."""
    taken = {key: one for key, one in SETTINGS.items() if not one.refused}
    refused = {key: one.refused for key, one in SETTINGS.items() if one.refused}
    parts = [
        "\n| key, as in librdkafka | value | to the group's coordinator (kafka-python) | |\n",
        "|---|---|---|---|\n",
        *(f"| `{key}` | {one.shown} | {one.group} | {one.doc} |\n" for key, one in taken.items()),
        "\nOf Java's clients these are taken:\n\n| key of Java's clients | here |\n|---|---|\n",
        *(f"| `{key}` | {what} |\n" for key, what in TRANSLATED.items()),
        "\nThese are refused, with this sentence:\n\n| key | why |\n|---|---|\n",
        *(f"| `{key}` | {why} |\n" for key, why in sorted({**REFUSED, **refused}.items())),
        "\n",
    ]
    return "".join(parts)


def with_tables(text: str) -> str:
    """The page's text with the tables as they are now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{tables()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text("utf-8")), "utf-8")
