"""The present tenant, in a project that switches the schema or the session for each tenant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed
from django.db.backends.base.base import BaseDatabaseWrapper
from django.dispatch import receiver
from django.utils.module_loading import import_string

from django_counters.errors import InvalidConfiguration

SETTING = "COUNTERS_TENANT"
CONTEXT = "COUNTERS_TENANT_CONTEXT"
LONGEST = 100  # characters
# Methods that a database backend overrides to set a schema or a role before each statement.
_MAKE_CURSORS = ("_cursor", "cursor", "create_cursor", "make_cursor")


def tenant() -> str:
    """Return the result of the ``COUNTERS_TENANT`` callable; "" without that setting.

    Everything that this process or Redis remembers of counters is kept per tenant.

    Raises:
        InvalidConfiguration: The setting isn't the dotted path of a callable, or the callable
            returned something else than a text of at most 100 characters.
    """
    current = named_callable()
    if current is None:
        return ""
    name = current()
    if not isinstance(name, str) or len(name) > LONGEST:
        problem = f"{SETTING} must return a text of at most {LONGEST} characters, not {name!r:.100}"
        raise InvalidConfiguration(problem=problem)
    return name


def has_tenants() -> bool:
    """Return whether the project names a callable in ``COUNTERS_TENANT``."""
    return getattr(settings, SETTING, None) is not None


@contextmanager
def acting_for(name: str) -> Iterator[None]:
    """Enter ``COUNTERS_TENANT_CONTEXT`` with a tenant; do nothing without tenants.

    Code that runs later, or in a thread of its own, serves the tenant of the call that asked for
    it. The present tenant may be another one, or none.
    """
    if not has_tenants():
        yield
        return
    with _context()(name):
        yield


def for_this_tenant(call: Callable[[], object]) -> Callable[[], object]:
    """Return a function that calls ``call`` for the present tenant, whenever it runs."""
    if not has_tenants():
        return call
    name = tenant()

    def call_for_tenant() -> None:
        with acting_for(name):
            call()

    return call_for_tenant


@lru_cache(maxsize=1)
def named_callable() -> Callable[[], object] | None:
    """Return the callable that ``COUNTERS_TENANT`` names; None without that setting.

    Raises:
        InvalidConfiguration: It, or ``COUNTERS_TENANT_CONTEXT`` beside it, is missing, can't be
            imported, or isn't callable.
    """
    if not has_tenants():
        return None
    # Without it, an increment that is sent after a commit could reach another tenant.
    _context()
    return _imported(SETTING)


@lru_cache(maxsize=1)
def _context() -> Callable[[str], AbstractContextManager[object]]:
    return _imported(CONTEXT)


def _imported(setting: str) -> Callable[..., Any]:
    path = getattr(settings, setting, None)
    if path is None:
        raise InvalidConfiguration(problem=f"{SETTING} needs {setting}, which isn't set")
    try:
        found: object = import_string(path)
    except (ImportError, TypeError, AttributeError) as error:
        raise InvalidConfiguration(problem=f"{setting} can't be imported: {error}") from error
    if not callable(found):
        raise InvalidConfiguration(problem=f"{setting} must name a callable: {path} isn't one")
    return found


@receiver(setting_changed)
def _forget(*, setting: str, **_: object) -> None:
    if setting in (SETTING, CONTEXT):
        named_callable.cache_clear()
        _context.cache_clear()


@lru_cache(maxsize=32)
def makes_cursors(backend: type[BaseDatabaseWrapper]) -> bool:
    """Return whether a backend outside of Django has its own way to make a cursor.

    Such a backend may set the tenant there, so every statement needs a new cursor.
    """
    return any(
        name in vars(base)
        for base in backend.__mro__
        if not base.__module__.startswith("django.")
        for name in _MAKE_CURSORS
    )
