"""Answers the requests of other regions over HTTP. Their side is `HttpPeer`.

A sender without the secret gets only 403. A sender with it can read the counts of regions, and
change the labels of the region that it claims to be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from django import http
from django.db import DEFAULT_DB_ALIAS, Error, transaction
from django.views.decorators.csrf import csrf_exempt

from django_counters.contrib.regions import wire
from django_counters.contrib.regions.declared import Regions, are_there, region_secrets, regions
from django_counters.contrib.regions.marks import PeerAway
from django_counters.contrib.regions.peers import DatabasePeer
from django_counters.contrib.regions.sql import Incarnation
from django_counters.errors import CounterError

logger = logging.getLogger("django_counters")
#: The most bytes of a request.
LARGEST_REQUEST = 2**16


class DataRefused(Exception):
    """The sender has the secret, but may not send this request. The text is the reason."""


@csrf_exempt
@transaction.non_atomic_requests
def answer(request: http.HttpRequest, using: str = DEFAULT_DB_ALIAS) -> http.HttpResponse:
    """Answer another region.

    Args:
        request: signed with a secret of ``COUNTERS_REGION_SECRETS``.
        using: the database of this region.
    """
    if not are_there():
        raise http.Http404
    if request.method != "POST":
        return http.HttpResponseNotAllowed(["POST"])
    declared, body = regions(), request.read(LARGEST_REQUEST + 1)
    signature = request.headers.get(wire.HEADER, "")
    secret = wire.secret_of(signature, body, region_secrets())
    if secret is None or len(body) > LARGEST_REQUEST:
        logger.warning("Refused a request without a region's signature.")
        return http.HttpResponseForbidden()
    status, contents = _answered(body, declared, DatabasePeer(using))
    packed = wire.packed(contents)
    headers = {wire.HEADER: wire.answer_signature(secret, signature, packed)}
    return http.HttpResponse(packed, "application/json", status, headers=headers)


def _answered(body: bytes, declared: Regions, here: DatabasePeer) -> tuple[int, dict[str, Any]]:
    """Return the status of an answer, and its contents."""
    try:
        message = wire.unpacked(body)
        _check_heading(message, declared, here)
        action = _ACTIONS.get(wire.text(message.get("ask")))
        if action is None:
            raise wire.Malformed("its action is unknown")
        return 200, action(here, message)
    except wire.Malformed as error:
        return 400, {"problem": f"it does not understand the request: {error}"}
    except DataRefused as error:
        return 403, {"problem": str(error)}
    except PeerAway as error:
        return 409, {"problem": error.reason}
    except (Error, CounterError) as error:
        logger.warning("A request of another region failed: %s", error)
        return 503, {"problem": "its database does not answer"}


def _check_heading(message: Mapping[str, Any], declared: Regions, here: DatabasePeer) -> None:
    """Check that a request is for this region, by its present or a former name, and of another.

    The sender needn't be in the settings: a renamed region goes on before they are changed.
    """
    to, sender = wire.region(message.get("to")), wire.region(message.get("from"))
    if to != declared.own and to not in here.homes():
        raise DataRefused(f"the region at its address is {declared.own}")
    if sender == declared.own:
        raise DataRefused(f"the region at its address is {sender} itself")


def _known(here: DatabasePeer, message: Mapping[str, Any]) -> dict[str, Any]:
    known = here.known(wire.region(message.get("region")))
    return {"marks": wire.marks_out(known.marks), "life": known.life}


def _homes(here: DatabasePeer, _message: Mapping[str, Any]) -> dict[str, Any]:
    homes = here.homes().items()
    return {"homes": [[name, wire.marks_out(marks)] for name, marks in homes]}


def _page(here: DatabasePeer, message: Mapping[str, Any]) -> dict[str, Any]:
    of = Incarnation(
        wire.region(message.get("region")), wire.incarnation(message.get("incarnation"))
    )
    return {"page": wire.page_out(here.page(of, wire.number(message.get("since"))))}


def _heard(here: DatabasePeer, message: Mapping[str, Any]) -> dict[str, Any]:
    heard = here.heard(wire.region(message.get("region")))
    return {"heard": heard and heard.isoformat()}


def _relabel(here: DatabasePeer, message: Mapping[str, Any]) -> dict[str, Any]:
    """Change the sender's own labels, the only change that a region makes in another one."""
    region = wire.region(message.get("region"))
    if region != message["from"] or region in here.homes():
        raise DataRefused("a region greets for itself alone")
    labels, life = wire.labels_in(message.get("labels")), wire.text(message.get("life"))
    return {"marks": wire.marks_out(here.relabel(region, labels, life))}


_ACTIONS: Mapping[str, Callable[[DatabasePeer, Mapping[str, Any]], dict[str, Any]]] = {
    "known": _known,
    "homes": _homes,
    "page": _page,
    "heard": _heard,
    "relabel": _relabel,
}
