"""What the groups in ``pyproject.toml`` require, and whether it is installed.

Read here and not by pip, because older versions of pip do not know groups.
"""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from example_project.bootstrap.folders import ROOT

REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[[^]]*\])?\s*(?:>=\s*(\d+(?:\.\d+)*))?[^;]*(;.*)?$")


def of(group: str) -> list[str]:
    """Return what ``group`` and the project itself require, as written in ``pyproject.toml``."""
    project = _project()
    base: list[str] = project["project"]["dependencies"]
    return list(dict.fromkeys([*base, *_members(project["dependency-groups"], group)]))


def wheels() -> set[str]:
    """Return the requirements that bring servers."""
    return set(_members(_project()["dependency-groups"], "services"))


def groups() -> list[str]:
    """Return the names of all groups."""
    return list(_project()["dependency-groups"])


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _members(table: dict[str, list[str | dict[str, str]]], name: str) -> Iterator[str]:
    for item in table[name]:
        if isinstance(item, str):
            yield item
        else:
            yield from _members(table, item["include-group"])


def met(requirement: str) -> bool:
    """Tell whether a requirement ``name[extra]>=1.2`` is installed; one with a marker always is."""
    found = REQUIREMENT.match(requirement)
    if found is None or found[3]:
        return True
    try:
        version = importlib.metadata.version(found[1])
    except importlib.metadata.PackageNotFoundError:
        return False
    return _numbers(version) >= _numbers(found[2] or "0")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]
