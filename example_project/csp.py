"""Tells browsers to take scripts, styles and pictures from this site alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from django.conf import settings
from django.http import HttpRequest, HttpResponse

HEADER = "Content-Security-Policy"
Rules = Mapping[str, Collection[str] | str]
# Nothing of the shop, the blog or the admin needs more.
SITE: Rules = {
    "default-src": ["'self'"],
    "object-src": ["'none'"],
    "base-uri": ["'self'"],
    "form-action": ["'self'"],
    "frame-ancestors": ["'none'"],
}
Answer = Callable[[HttpRequest], HttpResponse]


def written(rules: Rules) -> str:
    """Rules as the header has them."""
    lists = {name: [by] if isinstance(by, str) else by for name, by in rules.items()}
    return "; ".join(f"{name} {' '.join(places)}" for name, places in lists.items())


def policy(answer: Answer) -> Answer:
    """What ``django.middleware.csp`` does from Django 6.0 on, for 5.2."""
    rules = written(settings.SECURE_CSP)

    def with_policy(request: HttpRequest) -> HttpResponse:
        response = answer(request)
        response.headers.setdefault(HEADER, rules)
        return response

    return with_policy
