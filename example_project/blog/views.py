"""Pages of the blog. A GET of a post counts one view of it, and a button likes it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.csrf import csrf_protect, ensure_csrf_cookie
from django.views.decorators.http import require_POST, require_safe

from example_project.blog.downloads import downloads_of, register
from example_project.blog.models import Post
from example_project.visits import count_visit, is_known, marked


@require_safe
def posts(request: HttpRequest) -> HttpResponse:
    """All posts, most liked first, by the exact likes."""
    liked = Post.objects.with_counts(consistency="cached").order_by("-likes", "pk")
    response = render(request, "blog/posts.html", {"rows": downloads_of(liked)})
    return count_visit(request, response, "blog")


@require_safe
@ensure_csrf_cookie
def post(request: HttpRequest, pk: int) -> HttpResponse:
    """One post. The number on the page includes this view; a HEAD is no view."""
    found = get_object_or_404(Post.objects.with_counts("likes"), pk=pk)
    known = request.method != "GET" or is_known(found.views.increment)
    ((_, downloads),) = downloads_of([found])
    page = render(request, "blog/post.html", {"post": found, "downloads": downloads})
    return marked(page, known)


@require_POST
@csrf_protect
def like(request: HttpRequest, pk: int) -> HttpResponse:  # noqa: ARG001
    """Count one like, and go back to the post."""
    found = get_object_or_404(Post, pk=pk)
    found.likes.increment()
    return redirect(found)


@require_safe
def download(request: HttpRequest, pk: int) -> HttpResponse:
    """The text of a post as a file; a HEAD is no download."""
    found = get_object_or_404(Post, pk=pk)
    if request.method == "GET":
        register(found)
    name = {"Content-Disposition": f'attachment; filename="{found.slug}.txt"'}
    return HttpResponse(found.body, content_type="text/plain; charset=utf-8", headers=name)
