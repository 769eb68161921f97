"""Pages of the blog: what is seen, liked and downloaded of a post."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.csrf import csrf_protect, ensure_csrf_cookie
from django.views.decorators.http import require_POST, require_safe

from django_counters import InvalidMoment, OutcomeUnknown
from django_counters.contrib import likes
from example_project.blog.countries import (
    TooOld,
    cell,
    count_view,
    country_of,
    seen_at,
    table_of,
)
from example_project.blog.downloads import downloads_of, register
from example_project.blog.likes import change, liker
from example_project.blog.models import Post
from example_project.countries import COUNTED_AS_HEADER
from example_project.race import OURS, count_naively, counting
from example_project.tally import LIKED_HEADER
from example_project.visits import count_visit, marked, remembered


@require_safe
def posts(request: HttpRequest) -> HttpResponse:
    """All posts, most liked first, by the exact likes."""
    liked = Post.objects.with_counts(consistency="cached").order_by("-likes", "pk")
    response = render(request, "blog/posts.html", {"rows": downloads_of(liked)})
    return count_visit(request, response, "blog")


@require_safe
@ensure_csrf_cookie
def post(request: HttpRequest, pk: int) -> HttpResponse:
    """One post. Asking for it counts nothing: the page itself says that it is seen."""
    found = get_object_or_404(Post.objects.with_counts(consistency="cached"), pk=pk)
    ((_, downloads),) = downloads_of([found])
    context = {
        "post": found,
        "downloads": downloads,
        "by_country": table_of(found),
        "is_liked": likes.has(found.likes, liker(request)),
    }
    return remembered(request, render(request, "blog/post.html", context))


@require_POST
@csrf_protect
def view(request: HttpRequest, pk: int) -> HttpResponse:
    """Count one view, by the country of who saw it and the day; and once more, naively."""
    found, country = get_object_or_404(Post, pk=pk), country_of(request)
    value, known = None, True
    try:
        seen = seen_at(request.POST.get("seen", ""))
        with counting(OURS):
            value = count_view(found, country, seen)
    except (TooOld, InvalidMoment):
        return HttpResponseBadRequest("That is no moment of the last days.")
    except OutcomeUnknown:
        known = False
    count_naively(pk)
    counted_as = cell(found, country, seen)
    headers = {COUNTED_AS_HEADER: f"{counted_as.country} {counted_as.day}"}
    return marked(JsonResponse({"value": value}, headers=headers), known)


@require_POST
@csrf_protect
def like(request: HttpRequest, pk: int) -> HttpResponse:
    """Like a post, or take that back. The form says which: who sends it again changes nothing."""
    found, asked = get_object_or_404(Post, pk=pk), request.POST.get("like")
    if asked not in ("yes", "no"):
        return HttpResponseBadRequest("like is yes or no.")
    result = change(found, liker(request), likes=asked == "yes")
    by = 0 if result.replayed else 1 if asked == "yes" else -1
    told = {"liked": asked == "yes", "value": result.value}
    wants_json = request.headers.get("Accept") == "application/json"
    response = JsonResponse(told) if wants_json else redirect(found)
    response.headers[LIKED_HEADER] = str(by)
    return remembered(request, response)


@require_safe
def download(request: HttpRequest, pk: int) -> HttpResponse:
    """The text of a post as a file; a HEAD is no download."""
    found = get_object_or_404(Post, pk=pk)
    if request.method == "GET":
        register(found)
    name = {"Content-Disposition": f'attachment; filename="{found.slug}.txt"'}
    return HttpResponse(found.body, content_type="text/plain; charset=utf-8", headers=name)
