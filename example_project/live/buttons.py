"""The buttons of two pages: something is killed, and a hot item is opened to buyers."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.views.decorators.csrf import csrf_protect, ensure_csrf_cookie
from django.views.decorators.http import require_POST, require_safe

from example_project import chaos, rush
from example_project.browser import Site
from example_project.chaos import ASKED_FOR
from example_project.rush import NAIVE, OURS
from example_project.server import HOST

# What is sent by the buyers is no load that somebody checks.
RUN = "rush"
# What of these pages changes while it is shown.
PARTS = ("victims", "killed", "rush")
# Where a press comes from, and goes back to without JavaScript.
PAGES = ("home", "live")


@require_POST
@csrf_protect
def kill(request: HttpRequest) -> HttpResponse:
    """Have Redis or the worker killed; 409 with the reason if it cannot be."""
    name = request.POST.get("do", "")
    if name not in ASKED_FOR:
        return HttpResponseBadRequest(f"do: {' or '.join(ASKED_FOR)}")
    if reason := chaos.ask(name):
        return _refused(reason)
    return _done(request, f"{name} is killed now, and started again a second later.")


@require_safe
@ensure_csrf_cookie
def door(_: HttpRequest) -> HttpResponse:
    """What a buyer opens before he buys."""
    return HttpResponse("Wait for the others.", content_type="text/plain")


@require_POST
@csrf_protect
def open_rush(request: HttpRequest) -> HttpResponse:
    """Open a hot item to all buyers; 409 while others are still buying."""
    parts = urlsplit(request.build_absolute_uri())
    try:
        rush.open_to_all(Site(parts.hostname or HOST, parts.port or 80, RUN))
    except rush.AlreadyOpen:
        return _refused("The buyers of the last one are not all answered.")
    return _done(request, f"{rush.BUYERS} buyers come for {rush.UNITS} items.")


@require_POST
@csrf_protect
def buy(_: HttpRequest, pk: int) -> JsonResponse:
    """Buy one of both stocks; says of which there was one."""
    return JsonResponse({NAIVE: rush.buy_naively(pk), OURS: rush.buy_exactly(pk)})


def shown() -> dict[str, Any]:
    """What a page needs for its buttons."""
    found = [{"name": name, "why_not": chaos.why_not(name)} for name in ASKED_FOR]
    return {"victims": found, "killed": chaos.killed(), "rush": rush.last()}


def fragments() -> dict[str, str]:
    """What changes of it while it is shown, by the id of its element."""
    found = shown()
    return {part: render_to_string(f"live/{part}.html", found).strip() for part in PARTS}


def _done(request: HttpRequest, said: str) -> HttpResponse:
    wants_json = request.headers.get("Accept") == "application/json"
    return JsonResponse({"said": said}) if wants_json else redirect(_came_from(request))


def _came_from(request: HttpRequest) -> str:
    came = request.POST.get("came", "")
    return came if came in PAGES else PAGES[0]


def _refused(reason: str) -> HttpResponse:
    return HttpResponse(reason, content_type="text/plain", status=HTTPStatus.CONFLICT)
