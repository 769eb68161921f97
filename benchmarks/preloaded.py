"""What the processes of `benchmarks.team` have in common, loaded once before they are forked."""

from __future__ import annotations

import django

django.setup()

import benchmarks.catalogue  # noqa: E402, F401
