"""The blog in the admin: the views are shown, and cannot be typed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin

from example_project.blog.models import Post

if TYPE_CHECKING:
    PostAdminBase = admin.ModelAdmin[Post]
else:
    PostAdminBase = admin.ModelAdmin


@admin.register(Post)
class PostAdmin(PostAdminBase):
    """Posts."""

    list_display = ("title", "views", "published_at")
    prepopulated_fields = {"slug": ("title",)}
