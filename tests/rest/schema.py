"""``python -m tests.rest.schema``: write the schema of the API into the documentation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

PATH = Path(__file__).parents[2] / "docs" / "reference" / "openapi.yaml"
# What a project adds is left out: its title, and how it finds out who somebody is.
_OWN = {
    "TITLE": "Counters over HTTP",
    "DESCRIPTION": (
        "What `django_counters.rest.urls` adds to a project, here under `/api/v1/`. Who may do"
        " what is declared for each namespace and field; how requests are authenticated is up to"
        " the project."
    ),
    "VERSION": "1",
    "AUTHENTICATION_WHITELIST": [],
}


def document() -> dict[str, Any]:
    """The schema, whatever the settings of the project are."""
    from drf_spectacular.generators import SchemaGenerator
    from drf_spectacular.settings import SPECTACULAR_DEFAULTS, patched_settings

    from tests.rest.urls import urlpatterns

    defaults = {
        name: value
        for name, value in SPECTACULAR_DEFAULTS.items()
        if not name.startswith("SERVE_") and name != "DEFAULT_GENERATOR_CLASS"
    }
    with patched_settings({**defaults, **_OWN}):
        generator: Any = SchemaGenerator
        found: dict[str, Any] = generator(patterns=urlpatterns).get_schema(public=True)
    return found


def written() -> str:
    """The text of the file."""
    from drf_spectacular.renderers import OpenApiYamlRenderer

    renderer: Any = OpenApiYamlRenderer()
    return str(renderer.render(document(), renderer_context={}), "utf-8")


def main() -> int:
    """Write the file."""
    import django
    from django.conf import settings

    settings.configure(
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django_counters",
            "django_counters.contrib.holds",
            "django_counters.contrib.likes",
            "django_counters.contrib.series",
            "django_counters.contrib.top",
            "django_counters.contrib.uniques",
        ],
        REST_FRAMEWORK={"DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema"},
    )
    django.setup()
    PATH.write_text(written(), encoding="utf-8")
    print(f"{PATH} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
