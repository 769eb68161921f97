"""The directive ``{from-code} NAME``: one of the tables that are read from the code."""

from __future__ import annotations

import tables
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class FromCode(SphinxDirective):
    """Puts a table where it stands."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in tables.TABLES:
            raise self.error(f"no table is called {name!r}; there are: {', '.join(tables.TABLES)}")
        return self.parse_text_to_nodes(tables.TABLES[name]())


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("from-code", FromCode)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
