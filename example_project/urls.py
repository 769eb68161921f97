"""Where the pages are, and which counters of theirs can be reached over HTTP."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.staticfiles.views import serve
from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularAPIView
from rest_framework_simplejwt.views import TokenRefreshView

from django_counters.rest import expose
from example_project import api
from example_project.blog import views as blog
from example_project.blog.models import Post
from example_project.live import buttons
from example_project.live import views as live
from example_project.shop import views as shop

# Here all visitors, and the load, have one address; on a site "60/min" is much.
LIMIT = "1000000/min"


def count_for(*origins: str) -> None:
    """Let the pages of these sites count views and likes, also of visitors who are not logged in.

    One call counts one. Whoever has the permission adjusts views, or approves that. Of each person
    there is one like: a visitor says ``who``, and who is logged in can take it back.
    """
    open_: dict[str, Any] = {"read": "anyone", "increment": "beacon", "max_delta": 1}
    sites: dict[str, Any] = {"origins": origins, "limit": LIMIT}
    expose(Post, "views", adjust="permission", approve="permission", **open_, **sites)
    expose(Post, "likes", decrement="authenticated", **open_, **sites)


# Where the site is as a rule. A run that finds the port taken says where it is.
count_for("http://127.0.0.1:8000", "http://localhost:8000")

urlpatterns: list[URLPattern | URLResolver] = [
    path("", live.home, name="home"),
    path("shop/", shop.products, name="shop"),
    path("shop/<int:pk>/", shop.product, name="product"),
    path("shop/<int:pk>/buy", shop.buy, name="buy"),
    path("shop/<int:pk>/basket", shop.fill, name="fill"),
    path("shop/baskets/<uuid:number>/", shop.basket, name="basket"),
    path("shop/baskets/<uuid:number>/checkout", shop.check_out, name="check-out"),
    path("shop/baskets/<uuid:number>/leave", shop.leave, name="leave"),
    path("blog/", blog.posts, name="blog"),
    path("blog/<int:pk>/", blog.post, name="post"),
    path("blog/<int:pk>/view", blog.view, name="view"),
    path("blog/<int:pk>/like", blog.like, name="like"),
    path("blog/<int:pk>/download", blog.download, name="download"),
    path("live/", live.page, name="live"),
    path("kill", buttons.kill, name="kill"),
    path("rush/", buttons.door, name="rush"),
    path("rush/open", buttons.open_rush, name="rush-open"),
    path("rush/<int:pk>/buy", buttons.buy, name="rush-buy"),
    path("live/counts.json", live.counts, name="live-counts"),
    path("api/v1/", include("django_counters.rest.urls")),
    path("api/token/", api.TokenView.as_view(), name="token"),
    path("api/token/refresh/", TokenRefreshView.as_view(), name="token-refresh"),
    path("api/schema/", SpectacularAPIView.as_view(), name="api-schema"),
    path("api/docs/", api.docs, name="api-docs"),
    # A real site lets its web server do this.
    path("static/<path:path>", serve, {"insecure": True}),
]
if apps.is_installed("django.contrib.admin"):
    urlpatterns.append(path("admin/", admin.site.urls))
