"""Pages of the blog. A GET of a post counts one view of it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from example_project.blog.models import Post
from example_project.visits import count_visit


@require_safe
def posts(request: HttpRequest) -> HttpResponse:
    """All posts and their views."""
    response = render(request, "blog/posts.html", {"posts": Post.objects.with_counts()})
    count_visit(request, "blog")
    return response


@require_safe
def post(request: HttpRequest, pk: int) -> HttpResponse:
    """One post. The number on the page includes this view; a HEAD is no view."""
    found = get_object_or_404(Post, pk=pk)
    if request.method == "GET":
        found.views.increment()
    return render(request, "blog/post.html", {"post": found})
