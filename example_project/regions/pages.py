"""The page, its numbers, and what its buttons do."""

from __future__ import annotations

from typing import Any

from django.contrib.staticfiles.views import serve
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from example_project.regions.chart import Late, rows
from example_project.regions.settings import NAMES
from example_project.regions.world import World, verdict

_shown: list[World] = []


def show(world: World) -> None:
    """Let the pages be about these regions."""
    _shown[:] = [world]


@require_safe
@never_cache
def page(request: HttpRequest) -> HttpResponse:
    """The page. Without JavaScript it shows the numbers of the moment."""
    return render(request, "regions/page.html", _context())


@require_safe
@never_cache
def numbers(_: HttpRequest) -> JsonResponse:
    """What changes of the page: the id of an element, and its content."""
    found = _context()
    cards = {
        f"card-{row.name}": render_to_string("regions/card.html", {"row": row}).strip()
        for row in found["rows"]
    }
    chart = render_to_string("regions/late.html", {"late": found["late"]}).strip()
    fragments = {"verdict": found["verdict"], "late": chart, **cards}
    return JsonResponse({"tables": {}, "fragments": fragments})


@require_POST
def press(request: HttpRequest) -> HttpResponse:
    """Cut or heal the line of a region, or let visitors come or stay away."""
    (world,) = _shown
    what, _, region = request.POST.get("do", "").partition(" ")
    if what in ("cut", "heal") and region in NAMES:
        world.set_line(region, whole=what == "heal")
    elif what in ("count", "rest"):
        world.set_counting(what == "count")
    else:
        return HttpResponseBadRequest("do: cut, heal, count or rest")
    if request.headers.get("Accept") == "application/json":
        return JsonResponse({"buttons": _buttons(world)})
    return redirect("page")


def _context() -> dict[str, Any]:
    (world,) = _shown
    states = world.states()
    *lines, visitors = _buttons(world)
    cards = rows(states, world.cut)
    return {
        "verdict": verdict(states),
        "rows": cards,
        "late": Late(list(world.moments)),
        "lines": list(zip(cards, lines, strict=True)),
        "visitors": visitors,
    }


def _buttons(world: World) -> list[dict[str, str]]:
    found = [
        {"about": name, "do": f"heal {name}", "text": f"Heal {name}"}
        if name in world.cut
        else {"about": name, "do": f"cut {name}", "text": f"Cut {name} off"}
        for name in NAMES
    ]
    visitors = ("rest", "Let no visitors come") if world.counts else ("count", "Let visitors come")
    return [*found, {"about": "visitors", "do": visitors[0], "text": visitors[1]}]


urlpatterns = [
    path("", page, name="page"),
    path("numbers.json", numbers, name="numbers"),
    path("press", press, name="press"),
    path("static/<path:path>", serve, {"insecure": True}),
]
