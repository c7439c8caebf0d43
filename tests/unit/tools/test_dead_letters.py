"""Dead letters as people see them, whatever their headers say."""

from __future__ import annotations

from streamlet.tools.dead_letters import _lines


def test_a_forged_letter_fakes_no_line_of_another() -> None:
    forged = {"topic": "a", "partition": "0", "message": "x\n0/7  handled\x1b[2J"}
    letter = {"partition": 0, "offset": 5, "state": "open", "reason": forged}
    head, record = _lines({**letter, "key": "k\ny", "value": {"v": 1}})
    assert head == "0/5  open  a-0@None  None  None: x␤0/7  handled␛[2J"
    assert record == "    k␤y\t{'v': 1}"
