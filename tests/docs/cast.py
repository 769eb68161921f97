"""What the names mean that the pages use and do not explain: ``post``, ``request``, ``keys``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from confluent_kafka import Message as Record
from django.contrib.auth.models import User
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.test.utils import override_settings

from django_counters import CounterField, testing
from django_counters.contrib.streams import KafkaMessage, Message
from django_counters.event import PLAIN
from django_counters.measure import Measure
from django_counters.models import Counter, CounterAdjustment, CounterIncident
from django_counters.types import Batch, Delta
from tests.docs.site.blog.models import Like, Post, Repo
from tests.docs.site.shop.models import Account, Order, Product
from tests.docs.site.stats.models import Change, Total

KEY = "likes:post:1"
Made = Callable[["Cast"], Any]


class Attributes(dict[str, Any]):
    """A body that was parsed, with its values as attributes, too."""

    __getattr__ = dict.__getitem__


class Cast:
    """The values of names on one page: made when they are first used, and then the same.

    Attributes:
        names: all that the blocks of the page see.
        defined: which of them a block has defined or imported.
    """

    def __init__(self, page: str) -> None:
        self.names: dict[str, Any] = {}
        self.defined: set[str] = set()
        self._own = PAGES.get(page, {})
        self._made: dict[str, Any] = {}
        self._numbers = itertools.count(1)

    @property
    def settings(self) -> list[str]:
        """What the page takes for granted of the settings."""
        return [name for name in self._own if name.isupper()]

    def begin(self) -> None:
        """A new block: records are made anew, so that what was done to them is not seen."""
        self._made.clear()

    def new(self, name: str) -> str:
        """A text that nobody else has."""
        return f"{name}-{next(self._numbers)}"

    def knows(self, name: str) -> bool:
        """Whether the name means something."""
        return name in self._own or name in NAMES

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = (self._own.get(name) or NAMES[name])(self)
        return self._made[name]

    def argument(self, of: str, name: str) -> Any:
        """The value of a parameter: what the page has for this function, else for the name."""
        own = f"{of}.{name}"
        return self[own if self.knows(own) else name]

    def override(self, **namespaces: Any) -> None:
        """Declare namespaces until the page ends."""
        testing.override_counters(**namespaces).enable()

    def change(self, name: str, value: Any) -> None:
        """Give a setting another value until the page ends."""
        override_settings(**{name: value}).enable()

    def somebody(self) -> User:
        """One more user."""
        return User.objects.create_superuser(self.new("user"))


class Changing:
    """As the fixture ``settings``: what is assigned holds until the page ends."""

    def __init__(self, cast: Cast) -> None:
        vars(self)["cast"] = cast

    def __setattr__(self, name: str, value: Any) -> None:
        vars(self)["cast"].change(name, value)


def asked(cast: Cast) -> HttpRequest:
    """A request of somebody who is logged in, with a key that makes it count once."""
    request = RequestFactory().get("/", headers={"Idempotency-Key": "5f0c9a52-order"})
    request.user = cast["user"]
    return request


def yesterday(cast: Cast) -> datetime:
    """A day ago."""
    return datetime.now(UTC) - timedelta(days=1)


def lately(cast: Cast) -> datetime:
    """Within the window of every token."""
    return datetime.now(UTC) - timedelta(minutes=1)


def counted_product(cast: Cast) -> Product:
    """42 pieces."""
    made: Product = Product.objects.create(name="Tea", stock=42)
    return made


def adjustment(cast: Cast) -> CounterAdjustment:
    """A row of one."""
    row: CounterAdjustment = Counter.objects.adjust(
        "stock:SKU-7", by=3, reason="A test of pages", actor="docs"
    )
    return row


def incident(cast: Cast) -> CounterIncident:
    """Amounts that did not land."""
    detail = {"amounts": {"quarantine:a": 3}}
    found: CounterIncident = CounterIncident._default_manager.create(
        kind="quarantined", subject="default", detail=detail
    )
    return found


def nothing(*given: Any) -> None:
    """Does nothing."""


NAMES: dict[str, Made] = {
    # Models of the reader.
    "Like": lambda cast: Like,
    "Post": lambda cast: Post,
    "Product": lambda cast: Product,
    # Records.
    "account": lambda cast: Account.objects.create(),
    "incident": incident,
    "order": lambda cast: Order._default_manager.create(),
    "post": lambda cast: Post.objects.create(title="Hello"),
    "product": counted_product,
    "repo": lambda cast: Repo._default_manager.create(name="tea"),
    "repos": lambda cast: [cast["repo"]],
    # People.
    "ada": Cast.somebody,
    "bots": lambda cast: [cast["like"].user],
    "grace": Cast.somebody,
    "like": lambda cast: Like._default_manager.create(user=cast.somebody(), post=cast["post"]),
    "user": Cast.somebody,
    # What a site and Django hand in.
    "adjustment": adjustment,
    "app_label": lambda cast: "django_counters",
    "db": lambda cast: "stats",
    "get_response": lambda cast: lambda request: HttpResponse(),
    "model": lambda cast: Counter,
    "request": asked,
    "response": lambda cast: HttpResponse(),
    "using": lambda cast: "default",
    "view": lambda cast: lambda request: HttpResponse(),
    "INSTALLED_APPS": lambda cast: [],
    # Fixtures of pytest.
    "assert_counted": lambda cast: testing.assert_counted,
    "assert_counts": lambda cast: testing.assert_counts,
    "client": lambda cast: Client(),
    "override_counters": lambda cast: cast.override,
    "settings": Changing,
    # Values.
    "_": lambda cast: None,
    "amount": lambda cast: Decimal("0.25"),
    "batch": lambda cast: Batch((Delta("likes:post:1", 2000),)),
    "by": lambda cast: 1,
    "cart": lambda cast: {"A": 1, "B": 2},
    "changes": lambda cast: {"likes:post:1": -3},
    "commit": lambda cast: True,
    "counted": lambda cast: {"stock:SKU-1": 40, "stock:SKU-2": 7},
    "delta": lambda cast: 1,
    "deltas": lambda cast: {"views:a": 3, "views:b": 1},
    "dry_run": lambda cast: True,
    "fee": lambda cast: Decimal("0.25"),
    "event": lambda cast: Attributes(id=cast.new("event"), time=lately(cast)),
    "key": lambda cast: KEY,
    "keys": lambda cast: ["likes:post:1", "likes:post:2"],
    "line_time": lately,
    "lines": lambda cast: [SimpleNamespace(sku="A", quantity=2, save=nothing)],
    "name": lambda cast: "tea",
    "number": lambda cast: 0,
    "page": lambda cast: ["views:a", "views:b"],
    "path": lambda cast: os.devnull,
    "pk": lambda cast: cast["post"].pk,
    "quantity": lambda cast: 2,
    "repo_id": lambda cast: cast["repo"].pk,
    "request_id": lambda cast: cast.new("order"),
    "rows": lambda cast: cast["lines"],
    "since": yesterday,
    "strategy": lambda cast: "exact",
    "sku": lambda cast: "SKU-123",
    "target": lambda cast: SimpleNamespace(record=SimpleNamespace(owner_id=cast["user"].pk)),
    "text": lambda cast: "any text, however long",
    "title": lambda cast: "Another title",
    "token": lambda cast: cast.new("token"),
    "work": lambda cast: lambda: 1,
    "yesterday": yesterday,
}


def _changed(cast: Cast) -> Any:
    """Where a rollup of one's own has come to."""
    Total._default_manager.create()
    Change._default_manager.create(by=3)
    return SimpleNamespace(last_id=0)


def _line(cast: Cast) -> Any:
    return SimpleNamespace(time=lately(cast), path="/tea")


def _cached_pk(cast: Cast) -> int:
    """The key of a post that somebody counts in the cache."""
    pk: int = cast["post"].pk
    cache.set(f"views:{pk}", 0)
    return pk


def _scrape(cast: Cast) -> HttpRequest:
    """What Prometheus sends."""
    return RequestFactory().get("/metrics", headers={"Authorization": "Bearer secret"})


# Where a page means something else by a name, or by a parameter of a function. What is written in
# capitals is a setting, which holds from the beginning of the page.
PAGES: dict[str, dict[str, Made]] = {
    "README.md": {
        "Counter": lambda cast: Counter,
        "CounterField": lambda cast: CounterField,
    },
    "docs/tour.md": {
        "bots": lambda cast: {"likes:post:1": -3},
        "stocktake.counted": lambda cast: 40,
    },
    "docs/explanation/value-is-total-plus-pending.md": {
        "COUNTERS": lambda cast: {"likes": {"STRATEGY": "sharded"}},
    },
    "docs/series.md": {"call.customer": lambda cast: "acme"},
    "docs/likes.md": {"user": lambda cast: 7},
    "docs/explanation/why-naive-ways-fail.md": {
        "job": _changed,
        "pk": _cached_pk,
        "sell.pk": lambda cast: cast["product"].pk,
    },
    "docs/how-to/async.md": {"place.key": lambda cast: "stock:SKU-1"},
    "docs/streams.md": {
        "message": lambda cast: Message("clicks", "1-1", {"product": "7", "sold": "2"}),
        "record": lambda cast: KafkaMessage(Record("clicks", 0, 1, b"7", b'{"product": 7}')),
    },
    "docs/adjustments.md": {
        "set_stock.counted": lambda cast: 40,
        "seen": lambda cast: 42,
    },
    "docs/ledger.md": {
        "publish.position": lambda cast: "",
        "send": lambda cast: dict,
        "confirm": lambda cast: dict,
    },
    "docs/reference/extend.md": {
        "effects.event": lambda cast: PLAIN,
        "measure": lambda cast: Measure("likes", options=(("weekdays", ("each",)),)),
    },
    "docs/how-to/history.md": {"days.key": lambda cast: "orders:eu"},
    "docs/how-to/errors-and-retries.md": {"sell.lines": lambda cast: [(cast["product"], 2)]},
    "docs/how-to/model-fields.md": {
        "NewProductForm.data": lambda cast: {"name": "Tea", "first_stock": 3},
    },
    "docs/how-to/monitor.md": {
        "METRICS_TOKEN": lambda cast: "secret",
        "metrics.request": _scrape,
    },
    "docs/cached.md": {"COUNTERS": lambda cast: {"views": {"STRATEGY": "cached"}}},
    "docs/how-to/retries.md": {
        "import_lines.lines": lambda cast: [(1, _line(cast))],
        "webhook.event": lambda cast: {
            "id": cast.new("event"),
            "created": lately(cast).timestamp(),
        },
    },
    "docs/how-to/trace.md": {
        "seconds": lambda cast: 0.5,
        "subject": lambda cast: "",
        "trace_upkeep.work": lambda cast: "flush",
    },
    "docs/reference/http.md": {
        "COUNTERS": lambda cast: {"votes": {"API": {"increment": "authenticated"}}},
    },
}

# What was counted before a page begins: stock and quotas that its blocks take from.
COUNTED = {
    "quota:customer-7": 100,
    "stock:A": 100,
    "stock:B": 100,
    "stock:SKU-1": 42,
    "stock:SKU-123": 100,
}
