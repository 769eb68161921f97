"""The blog in the admin: views and likes are shown, and views are adjusted with a reason."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet

from django_counters.admin import CounterFieldsAdmin
from example_project.blog.models import Post


@admin.register(Post)
class PostAdmin(CounterFieldsAdmin):
    """Posts."""

    list_display = ("title", "views", "likes", "published_at")
    prepopulated_fields = {"slug": ("title",)}

    def get_queryset(self, *_: object) -> QuerySet[Post]:
        """With likes and views that wait: the columns alone have those that have landed."""
        return Post.objects.with_counts(consistency="cached")
