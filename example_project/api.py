"""The HTTP API of the example: what pages may count, tokens for programs, and a page to try it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe
from rest_framework_simplejwt.views import TokenObtainPairView

from django_counters.contrib.limits import Limit
from django_counters.contrib.limits.rest import LimitThrottle
from example_project import csp

# Swagger UI draws its arrows from pictures that are part of its style sheet.
_DOCS: csp.Rules = {**csp.SITE, "img-src": ["'self'", "data:"]}


class Guesses(LimitThrottle):
    """How often one address may try a password."""

    limit = Limit("token", "30/min", timeout=1)


class TokenView(TokenObtainPairView):
    """A token for a name and a password: for programs, which have no session."""

    throttle_classes = (Guesses,)


@require_safe
@ensure_csrf_cookie
def docs(request: HttpRequest) -> HttpResponse:
    """The interactive page of the API. All of it comes from this site."""
    response = render(request, "api/docs.html")
    response.headers[csp.HEADER] = csp.written(_DOCS)
    return response
