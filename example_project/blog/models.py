"""Posts, how often they were read, how many people like them, and who downloaded them."""

from __future__ import annotations

from django.db import models
from django.urls import reverse

from django_counters import CounterField, CounterQuerySet
from example_project.countries import MOST_COUNTRIES


class Post(models.Model):
    """Something to read."""

    title = models.CharField(max_length=120)
    slug = models.SlugField(unique=True)
    body = models.TextField()
    published_at = models.DateTimeField(auto_now_add=True)
    # Patient, as the settings are: everything of the example shares one machine.
    views = CounterField(
        strategy="cached",
        timeout=1,
        approve_above=100,
        per=["hour", "day"],
        tags={"country": MOST_COUNTRIES},
        keep={"hour": 35},
        top=["day", "week"],
    )
    # The same views once more, as a plain column has them: see the race.
    naive_views = models.PositiveIntegerField(default=0, editable=False)
    # Of each person once: nobody adjusts how many people there are.
    likes = CounterField(strategy="slotted", once=True)

    objects = CounterQuerySet.as_manager()

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        """The page of the post."""
        return reverse("post", args=[self.pk])


class Download(models.Model):
    """One line of the register of downloads. It exists if and only if it was counted."""

    post = models.ForeignKey(Post, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"post {self.post_id}, {self.created_at:%Y-%m-%d %H:%M}"
