"""What requests carry beside their body, as the schema of the API says it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter

from django_counters.calendar import PERIODS
from django_counters.measure import MOST_TAGS, TAG_LENGTH
from django_counters.tokens import TOKEN_LENGTH
from django_counters.types import KEY_LENGTH

EXAMPLE = "likes:post:456"
# Of points times splits, in an answer.
MOST_POINTS = 1000
LAST_LENGTH = 10
ZONE_LENGTH = 60

KEY = OpenApiParameter(
    "key",
    {"type": "string", "minLength": 1, "maxLength": KEY_LENGTH},
    OpenApiParameter.PATH,
    description=(
        "The counter: `<namespace>:<name>`, or `<app>.<Model>.<field>:<primary key>`. Printable"
        " characters without white space, in Unicode normalization form C. A slash is part of the"
        " key, as it is or as `%2F`, but not at its end; other characters are percent-encoded"
        " UTF-8."
    ),
    examples=[OpenApiExample("named", EXAMPLE), OpenApiExample("record", "blog.Post.views:7")],
)
ONCE = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": TOKEN_LENGTH},
    OpenApiParameter.HEADER,
    description=(
        "Names this request. However often it is sent, it is done once, and is answered the same."
        " It belongs to who sends it, and to the method and path."
    ),
    examples=[OpenApiExample("uuid", "018f6d0e-4b5a-7c3d-9e8f-0a1b2c3d4e5f")],
)
SEEN = OpenApiParameter(
    "If-None-Match",
    {"type": "string"},
    OpenApiParameter.HEADER,
    description="The ETag of an answer that you have: 304 if the value is still the same.",
    examples=[OpenApiExample("etag", 'W/"42"')],
)
PERIOD = OpenApiParameter(
    "by", {"type": "string", "enum": ["hour", "day"]}, default="hour", description="Of a point."
)


def _asks(name: str, says: str, example: Any = None, **schema: Any) -> OpenApiParameter:
    examples = [OpenApiExample(name, example)] if example else []
    schema.setdefault("type", "string")
    return OpenApiParameter(
        name, schema, OpenApiParameter.QUERY, description=says, examples=examples
    )


_LAST = "^([1-9][0-9]{0,4}|[1-9][0-9]{0,8}[mhdw])$"
_TAG = {"type": "string", "maxLength": TAG_LENGTH}
OF_SERIES = (
    _asks("per", "One point for each; without it, one for all of the time.", enum=list(PERIODS)),
    _asks(
        "last",
        "So many periods, the present one included; or back from now: a number and `m` (minutes),"
        " `h`, `d` or `w`.",
        "30d",
        pattern=_LAST,
    ),
    _asks("since", "From when on, with an offset.", format="date-time"),
    _asks("until", "Up to when; now, where it is not given.", format="date-time"),
    _asks("tz", "Whose clocks.", "Europe/Berlin", maxLength=ZONE_LENGTH),
    _asks(
        "by",
        "Apart for each value of a tag. Several: again, or with commas.",
        ["country"],
        **{"type": "array", "items": {**_TAG, "minLength": 1}, "maxItems": MOST_TAGS},
    ),
    OpenApiParameter(
        "where",
        {"type": "object", "additionalProperties": _TAG},
        OpenApiParameter.QUERY,
        description=(
            "Only what was counted with a value of a tag, or with any of several: each is a"
            " parameter `where.<tag>`, which may be there again. Empty for without."
        ),
        style="form",
        explode=True,
        examples=[OpenApiExample("where", {"where.country": "DE"})],
    ),
)
