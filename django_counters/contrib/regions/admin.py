"""The app's sections of the admin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from django_counters.admin.overview import age_text
from django_counters.contrib.regions.declared import is_regional, region_problems
from django_counters.contrib.regions.reading import by_region
from django_counters.contrib.regions.state import Exchange, exchanged
from django_counters.errors import CounterError
from django_counters.features import OnPage, Panel
from django_counters.metrics.facts import Away, attempt
from django_counters.registry import registry

# On the page of a counter.


class RegionsPanel(Panel):
    """Shows each region's count, and the sum, on the page of a counter."""

    template = "admin/django_counters_regions/panel.html"

    def context(self, request: HttpRequest, counter: OnPage) -> Mapping[str, Any] | None:  # noqa: ARG002
        """Return each region's count; None for a counter that isn't regional."""
        if counter.owner or not is_regional(registry.policy(counter.key)):
            return None
        try:
            counts = by_region(counter.key, counter.using)
        except CounterError:
            # The overview shows problems of the settings. The counter's value shows that Redis is
            # unavailable.
            return None
        return {"regions": [*counts.items(), (_("Together"), sum(counts.values()))]}


# On the overview.


class RegionsSection:
    """Shows the age of each region's publication or copy, on the overview."""

    template = "admin/django_counters_regions/section.html"

    def context(self, request: HttpRequest, using: str) -> Mapping[str, Any] | None:  # noqa: ARG002
        """Return the age of each region; None if this isn't a region."""
        if any(region_problems(needed=False)):
            return None
        exchange = attempt("regions", using, lambda: exchanged(using))
        # The findings beside it show why nothing could be read.
        if isinstance(exchange, Away) or not exchange.region:
            return None
        return {"regions": list(_ages(exchange))}


def _ages(exchange: Exchange) -> Iterator[tuple[str, str, str]]:
    yield exchange.region, _("published by this region"), age_text(exchange.published)
    for peer in exchange.peers:
        yield peer.region, _("copied by this region"), age_text(peer.lag)
