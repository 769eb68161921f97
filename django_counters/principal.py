"""Who sends a request: a user, a token without a user, or an address.

Requests of REST framework are taken as those of Django are.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from django.conf import settings
from django.db import models
from django.http import HttpRequest

UNKNOWN = "unknown"
# A text that is no address comes from a stranger, and may be as long as a header.
_LONGEST = 100
# Some proxies write the port, too, which differs for each connection.
_WITH_PORT = re.compile(r"\[([^\]]*)\](?::\d+)?|(\d+\.\d+\.\d+\.\d+):\d+", re.ASCII)
NETWORK_BITS = 64


def principal_of(request: HttpRequest, bits: int = NETWORK_BITS) -> str:
    """``user:<model>:<pk>``, ``token:<digest>`` without a user, else ``address:<address>``.

    A token is ``request.auth`` of REST framework: it is told apart by its primary key if it is a
    record, by its ``iss`` and ``sub`` if it has a subject, else by all of its text. If it has none
    that is the same for each request, the address counts.
    """
    user = known_user(request)
    if user is not None:
        return user_text(user)
    return _token_text(request) or f"address:{address_of_client(request, bits)}"


def _token_text(request: HttpRequest) -> str | None:
    auth = getattr(request, "auth", None)
    # True says that there is a token, and not which one; so does a record without a key.
    if not auth or auth is True or (isinstance(auth, models.Model) and auth.pk is None):
        return None
    told: object
    if isinstance(auth, models.Model):
        told = (auth._meta.concrete_model._meta.label, auth.pk)  # type: ignore[union-attr]
    elif hasattr(auth, "get") and (subject := auth.get("sub")):
        told = (auth.get("iss"), subject)
    elif isinstance(auth, Mapping):
        told = sorted((str(name), repr(part)) for name, part in auth.items())
    elif isinstance(auth, str | bytes) or _has_text(auth):
        told = auth if isinstance(auth, bytes) else str(auth)
    else:
        return None
    # It may be a secret.
    return f"token:{hashlib.sha256(repr(told).encode()).hexdigest()}"


def _has_text(auth: object) -> bool:
    """Whether its text is its own, and not that of its address in memory."""
    return not {type(auth).__str__, type(auth).__repr__} <= {object.__str__, object.__repr__}


def user_text(user: Any) -> str:
    """``user:<model>:<pk>``, with the model: users of two models may have one primary key.

    Seen through a proxy, a user is the same one.
    """
    is_record = isinstance(user, models.Model)
    kind = user._meta.concrete_model._meta.label if is_record else type(user).__name__
    return f"user:{kind}:{_key_of(user)}"


def _key_of(user: Any) -> Any:
    """The primary key, or the name of a user who isn't stored; None without either."""
    if (key := getattr(user, "pk", None)) is not None:
        return key
    name = getattr(user, "username", "")
    return f"name:{name}" if name else None


def network_of(request: HttpRequest, bits: int) -> str | None:
    """The IPv6 network that a request comes from, of so many bits: ``network:2001:db8::/48``.

    None for an authenticated user, for a token, and for any other address.
    """
    address = _address_in(_hop(request))
    if not (principal_of(request).startswith("address:") and isinstance(address, IPv6Address)):
        return None
    return f"network:{_network(address, bits)}"


def known_user(request: HttpRequest) -> Any:
    """Return the authenticated user of a request; None without one that has a key or a name."""
    user = getattr(request, "user", None)
    known = user is not None and user.is_authenticated and _key_of(user) is not None
    return user if known else None


def address_of_client(request: HttpRequest, bits: int = NETWORK_BITS) -> str:
    """The address that a request comes from; ``unknown`` if the server tells none.

    That is the address of the connection. If ``NUM_PROXIES`` of ``REST_FRAMEWORK`` is a number n
    above zero, it is the n-th from the right in ``X-Forwarded-For``: the address that the outermost
    of those proxies has seen. The client may have written anything further left, so that is not
    read; without ``NUM_PROXIES``, the header is not read at all.

    For an IPv6 address it is the network of so many bits: /64, because a client has all of it. An
    IPv4 address that is written as an IPv6 address is an IPv4 address.
    """
    text = _hop(request)
    address = _address_in(text)
    if address is None:
        return text[:_LONGEST] or UNKNOWN
    return str(address) if isinstance(address, IPv4Address) else _network(address, bits)


def _hop(request: HttpRequest) -> str:
    direct = str(request.META.get("REMOTE_ADDR") or "").strip()
    declared = getattr(settings, "REST_FRAMEWORK", None) or {}
    proxies: int | None = declared.get("NUM_PROXIES")
    forwarded = str(request.META.get("HTTP_X_FORWARDED_FOR") or "").strip()
    if not proxies or not forwarded:
        return direct
    hops = forwarded.split(",")
    return hops[-min(proxies, len(hops))].strip()


def _address_in(text: str) -> IPv4Address | IPv6Address | None:
    found = _WITH_PORT.fullmatch(text)
    bare = (found[1] or found[2] or "") if found else text
    try:
        address = ip_address(bare)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _network(address: IPv6Address, bits: int) -> str:
    host = 128 - bits
    return f"{IPv6Address(int(address) >> host << host)}/{bits}"
