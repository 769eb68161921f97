"""Who sends a request: a user, or an address where nobody is logged in."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from django.db import models
from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.settings import api_settings

UNKNOWN = "unknown"
# What is no address comes from a stranger, and may be as long as a header.
_LONGEST = 100
# Some proxies write the port, too: it is another one for each connection.
_WITH_PORT = re.compile(r"\[([^\]]*)\](?::\d+)?|(\d+\.\d+\.\d+\.\d+):\d+", re.ASCII)
_NETWORK_BITS = 64


def principal_of(request: Request | HttpRequest) -> str:
    """``user:<model>:<pk>`` for who is authenticated, else ``address:<address>``.

    Where users are of several models, two of them may have the same primary key.
    """
    user = _user_of(request)
    if user is not None:
        kind = user._meta.label if isinstance(user, models.Model) else type(user).__name__
        return f"user:{kind}:{user.pk}"
    return f"address:{address_of_client(request)}"


def network_of(request: Request | HttpRequest, bits: int) -> str | None:
    """The IPv6 network of so many bits that a request comes from: ``network:2001:db8::/48``.

    None of who is authenticated, and of who has no IPv6 address.
    """
    address = _address_in(_hop(request).strip())
    if _user_of(request) is not None or not isinstance(address, IPv6Address):
        return None
    return f"network:{_network(address, bits)}"


def _user_of(request: Request | HttpRequest) -> Any:
    user = getattr(request, "user", None)
    return user if user is not None and user.is_authenticated and user.pk is not None else None


def address_of_client(request: Request | HttpRequest) -> str:
    """The address that a request comes from; ``unknown`` where the server tells none.

    That is who is connected to the server. If ``NUM_PROXIES`` of ``REST_FRAMEWORK`` is a number n
    above zero, it is the n-th from the right in ``X-Forwarded-For``: the one that the outermost of
    those proxies has seen. What stands further left is whatever the client wrote, and is not read;
    without ``NUM_PROXIES`` that is the whole header.

    Of an IPv6 address it is the network (/64), for a client has all of it. An IPv4 address that is
    written as an IPv6 address is an IPv4 address.
    """
    return _narrowed(_hop(request).strip())


def _hop(request: Request | HttpRequest) -> str:
    direct = str(request.META.get("REMOTE_ADDR") or "")
    proxies = api_settings.NUM_PROXIES
    forwarded = str(request.META.get("HTTP_X_FORWARDED_FOR") or "").strip()
    if not proxies or not forwarded:
        return direct
    hops = forwarded.split(",")
    return hops[-min(proxies, len(hops))]


def _narrowed(text: str) -> str:
    address = _address_in(text)
    if address is None:
        return text[:_LONGEST] or UNKNOWN
    return str(address) if isinstance(address, IPv4Address) else _network(address, _NETWORK_BITS)


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
