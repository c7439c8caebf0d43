"""Proofs that a request, or its answer, is of an instance with the token, which itself is not sent.

The control topic says where members answer, and a client that may write there can name any address.
With the token that address could read all stores, and without a proof it could make answers up.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256

#: Headers of a question between members: whom it is for, and of which task's partition it is.
FOR_MEMBER, OF_PARTITION = "Streamlet-For-Member", "Streamlet-Of-Partition"
#: The header of a position that an answer has to contain at least.
AT_LEAST = "Streamlet-At-Least"
#: The scheme of ``Authorization`` with a proof in place of the token.
SCHEME = "Streamlet"
#: The header of an answer with its proof.
ANSWER_PROOF = "Streamlet-Proof"
#: How far the clocks of two machines may be apart, ms; an older request is not answered.
MOST_APART_MS = 300_000


def authorization(token: str, at_ms: int, target: str, headers: Mapping[str, str]) -> str:
    """The header ``Authorization`` of a request; ``target`` is its path with its parameters."""
    return f"{SCHEME} {at_ms} {_of_request(token, str(at_ms), target, headers)}"


def is_right(token: str, given: str, now_ms: int, target: str, headers: Mapping[str, str]) -> bool:
    """True if a header of ``authorization`` was made with the token for this request, just now.

    ``given`` is the header without the scheme.
    """
    at, _, proof = given.strip().partition(" ")
    if not (at.isascii() and at.isdigit() and len(at) <= 15):
        return False
    right = _of_request(token, at, target, headers)
    is_now = abs(now_ms - int(at)) <= MOST_APART_MS
    return hmac.compare_digest(proof.encode(errors="replace"), right.encode()) and is_now


def answer_proof(token: str, request: str, status: int, body: bytes) -> str:
    """The proof of an answer; ``request`` is the header ``Authorization`` that it answers."""
    return _proof(token, b"answer", request.encode(errors="replace"), b"%d" % status, body)


def is_answer(token: str, request: str, status: int, body: bytes, given: str) -> bool:
    """True if an answer was made with the token; ``given`` is its proof."""
    right = answer_proof(token, request, status, body)
    return hmac.compare_digest(given.encode(errors="replace"), right.encode())


def _of_request(token: str, at: str, target: str, headers: Mapping[str, str]) -> str:
    bound = (at, target, *(headers.get(name, "") for name in (FOR_MEMBER, OF_PARTITION, AT_LEAST)))
    return _proof(token, b"request", *(text.encode(errors="replace") for text in bound))


def _proof(token: str, *parts: bytes) -> str:
    made = hmac.new(token.encode(), digestmod=sha256)
    for part in parts:
        made.update(len(part).to_bytes(8, "big"))
        made.update(part)
    return made.hexdigest()
