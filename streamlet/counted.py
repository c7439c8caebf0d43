"""Numbers of things, as texts for people have them."""

from __future__ import annotations


def counted(number: int, one: str, more: str = "") -> str:
    """A number with what there is so many of, such as "1 record" and "2,000 records".

    Args:
        number: how many.
        one: the word for one, or several with a verb: "record was".
        more: the words for any other number; an s behind ``one`` if not given.
    """
    return f"{number:,} {one if number == 1 else more or one + 's'}"
