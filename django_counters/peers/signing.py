"""A signature proves that the sender knows the secret of the regions: HMAC with SHA-256.

A request is signed with its whole body, which has a nonce. An answer is signed with its body and
the signature of the request: it is no answer to another one.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

#: The header of requests and of answers.
HEADER = "X-Counters-Signature"


def request_signature(secret: str, body: bytes) -> str:
    """How a request is signed."""
    return _signature(secret, b"request", body)


def answer_signature(secret: str, request: str, body: bytes) -> str:
    """How an answer is signed; ``request``: the signature of the request."""
    return _signature(secret, b"answer", request.encode() + body)


def is_same(given: str, expected: str) -> bool:
    """Whether a signature is the one that it should be. How long it takes does not tell."""
    return hmac.compare_digest(given.encode(), expected.encode())


def secret_of(given: str, body: bytes, secrets: Sequence[str]) -> str | None:
    """The secret that a request was signed with; None where it is none of these."""
    for secret in secrets:
        if is_same(given, request_signature(secret, body)):
            return secret
    return None


def _signature(secret: str, kind: bytes, signed: bytes) -> str:
    # The end of the kind and the beginning of the signed text are unambiguous: kinds have no line
    # ends.
    return hmac.digest(secret.encode(), b"counters " + kind + b"\n" + signed, "sha256").hex()
