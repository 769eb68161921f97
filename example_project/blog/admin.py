"""The blog in the admin: views and likes are shown, and cannot be typed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.db.models import QuerySet

from example_project.blog.models import Post

if TYPE_CHECKING:
    PostAdminBase = admin.ModelAdmin[Post]
else:
    PostAdminBase = admin.ModelAdmin


@admin.register(Post)
class PostAdmin(PostAdminBase):
    """Posts."""

    list_display = ("title", "views", "likes", "published_at")
    prepopulated_fields = {"slug": ("title",)}

    def get_queryset(self, *_: object) -> QuerySet[Post]:
        """With likes and views that wait: the columns alone have those that have landed."""
        return Post.objects.with_counts(consistency="cached")
