"""Pages of a list: the cursor of a page stands for its last row, and the next begins behind it."""

from __future__ import annotations

from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode
from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.utils.urls import replace_query_param

HEADERS = {"Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie"}


def url_after(request: Request, last: str) -> str:
    """The address of the page behind a row, which a text identifies."""
    cursor = urlsafe_base64_encode(last.encode())
    url: str = replace_query_param(request.build_absolute_uri(), "cursor", cursor)
    return url


def text_of(cursor: str) -> str:
    """The text that a cursor stands for.

    Raises:
        ValidationError: it stands for none.
    """
    try:
        text = urlsafe_base64_decode(cursor).decode()
    except ValueError:
        text = ""
    if not text or "\0" in text or urlsafe_base64_encode(text.encode()) != cursor:
        raise no_cursor()
    return text


def no_cursor() -> drf.ValidationError:
    """The error of a cursor of another list."""
    return drf.ValidationError({"cursor": ["It is not of this list: follow 'next'."]})
