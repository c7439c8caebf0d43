"""Parsers of bytes from outside: the errors that each may raise, whole inputs, and what went wrong.

The table in docs/internals/parsers.md has a row for each.
"""

from __future__ import annotations

from tests.fuzz.targets_disks import DISKS
from tests.fuzz.targets_http import HTTP
from tests.fuzz.targets_members import COMMITS, MEMBERS
from tests.fuzz.targets_records import RECORDS, SETTINGS
from tests.fuzz.targets_rows import ROWS
from tests.fuzz.targets_topics import TOPICS

TARGETS = (*MEMBERS, *COMMITS, *TOPICS, *DISKS, *RECORDS, *ROWS, *SETTINGS, *HTTP)
