"""A policy for content as a careful site has it: nothing inline, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

POLICY = "; ".join(
    (
        "default-src 'self'",
        "base-uri 'none'",
        "object-src 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)


Answer = Callable[[HttpRequest], HttpResponse]


def with_policy(get_response: Answer) -> Answer:
    """Middleware that sends the policy with every page. Django has its own only since 6.0."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers["Content-Security-Policy"] = POLICY
        return response

    return answer
