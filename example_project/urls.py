"""Where the pages are."""

from __future__ import annotations

from django.apps import apps
from django.contrib import admin
from django.contrib.staticfiles.views import serve
from django.urls import URLPattern, URLResolver, path
from django.views.generic import RedirectView

from example_project.blog import views as blog
from example_project.live import views as live
from example_project.shop import views as shop

urlpatterns: list[URLPattern | URLResolver] = [
    path("", RedirectView.as_view(pattern_name="shop"), name="home"),
    path("shop/", shop.products, name="shop"),
    path("shop/<int:pk>/", shop.product, name="product"),
    path("shop/<int:pk>/buy", shop.buy, name="buy"),
    path("blog/", blog.posts, name="blog"),
    path("blog/<int:pk>/", blog.post, name="post"),
    path("blog/<int:pk>/like", blog.like, name="like"),
    path("blog/<int:pk>/download", blog.download, name="download"),
    path("live/", live.page, name="live"),
    path("live/counts.json", live.counts, name="live-counts"),
    # A real site lets its web server do this.
    path("static/<path:path>", serve, {"insecure": True}),
]
if apps.is_installed("django.contrib.admin"):
    urlpatterns.append(path("admin/", admin.site.urls))
