"""The outlet of the app: keeps what buffers publish."""

from __future__ import annotations

from django_counters.write.pages import Lander, Page, deltas_in

entries: list[tuple[str, int]] = []


class Diary(Lander):
    """Writes each page down."""

    size = 10

    def land(self, page: Page) -> None:
        """Write the amounts down."""
        entries.extend((str(delta.key), delta.by) for delta in deltas_in(page.entries))

    def has_landed(self, page: Page) -> bool:
        """Return whether it was written."""
        return page.landed
