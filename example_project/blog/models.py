"""Posts and how often they were read."""

from __future__ import annotations

from django.db import models
from django.urls import reverse

from django_counters import CounterField, CounterQuerySet


class Post(models.Model):
    """Something to read."""

    title = models.CharField(max_length=120)
    slug = models.SlugField(unique=True)
    body = models.TextField()
    published_at = models.DateTimeField(auto_now_add=True)
    views = CounterField()

    objects = CounterQuerySet.as_manager()

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        """The page of the post."""
        return reverse("post", args=[self.pk])
