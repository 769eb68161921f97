"""All that an app can add to counters. Read this file before any other.

An app declares a `Feature` as the attribute ``counters_feature`` of its config::

    class Loud(Feature):
        def jobs(self):
            yield Job("shout", 3600, "shop.loud.work.shout", _("shout what was counted"))

    class LoudConfig(AppConfig):
        name = "shop.loud"
        counters_feature = Loud()

Nothing has to be registered: the features are those of the apps in ``INSTALLED_APPS``. Django
imports ``apps.py`` before it has models, and fields ask for options while models are imported. So
``apps.py`` imports no models. Import models inside a method, or name the code that needs them by
its path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.utils.functional import Promise

    from django_counters.projections.base import Projection


class Done(NamedTuple):
    """The result of a job.

    Attributes:
        text: a line for people.
        data: the same as names and numbers, texts or lists of those, which JSON can express.
        problems: what a person has to look at. The command ends with an error if there are some.
    """

    text: str
    data: Mapping[str, Any]
    problems: Sequence[str] = ()


class Verdict(StrEnum):
    """The urgency of a finding: nothing to do, unusual but no action, action needed."""

    OK = "OK"
    WARN = "WARN"
    ACT = "ACT"


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
        subject: the namespace, field, Redis or part that it is about.
        strategy: the strategy of its counters; "" if it is about none.
        rows: how many rows wait, or generations for cached counters.
        counters: the number of their counters; for cached counters, at most.
        action: what to do, or why something waits; may be empty.
        needed: whether an administrator has to act.
        lag: how many seconds something waits in Redis at most; None for others.
        command: the command in ``action``; empty if no command helps.
        warns: whether it is unusual, though no action is needed now.
    """

    subject: str
    strategy: str
    rows: int
    counters: int
    action: str = ""
    needed: bool = False
    lag: float | None = None
    command: str = ""
    warns: bool = False

    @property
    def verdict(self) -> Verdict:
        """Return the verdict of the finding."""
        if self.needed:
            return Verdict.ACT
        return Verdict.WARN if self.warns else Verdict.OK


class Drift(NamedTuple):
    """A counter with a wrong total: the ``expected`` one, and the one that was ``found``."""

    key: str
    expected: int
    found: int


class Job(NamedTuple):
    """Work that has to be done again and again.

    Attributes:
        name: one word; ``counters upkeep NAME`` does this job alone.
        every: after how many seconds ``counters upkeep --loop`` and the Celery task do it again.
        path: the dotted path of a function. It takes the alias of a database and returns `Done`.
            Several processes can call it at once, and each call can be killed.
        help: what it does, for ``counters upkeep --list``.
        local: it works on this machine, as on its files: each call does it, on each machine.
    """

    name: str
    every: float
    path: str
    help: str | Promise
    local: bool = False

    def run(self, using: str) -> Done:
        """Do it once, in one database."""
        done: Done = import_string(self.path)(using)
        return done


class Panel(Protocol):
    """A section of the page of a counter in the admin."""

    #: The path of its template, which gets ``panel``: the result of `context`.
    template: str

    def context(
        self, request: HttpRequest, owner: str, key: str, using: str
    ) -> Mapping[str, Any] | None:
        """Return the template's context for one counter the user may view; None hides the section.

        ``owner``: ``app.Model.field`` of its record; empty for a named counter.
        """


class Feature:
    """What one app adds. It overrides what it needs; each method here adds nothing."""

    #: Options of namespaces and fields, with their checks. `conf` reads them whenever it parses
    #: ``COUNTERS``, and `CounterField` when it is made. Their values are in
    #: ``registry.policy(key).options`` of declared namespaces, and among the arguments of a field.
    options: Sequence[Projection] = ()
    #: The names of the settings that only this app reads. While the app of a capability in
    #: ``django_counters.contrib`` isn't installed, a check reports each of them that is set.
    settings: Sequence[str] = ()
    #: The dotted path of a module with ``urlpatterns``, which `django_counters.rest.urls` includes,
    #: and perhaps ``PROBLEMS``, a mapping of errors to `rest.problems.Kind`.
    rest: str = ""
    #: The dotted path of a `Panel`. It is made for each page.
    panel: str = ""
    #: Errors that say what to do: the command prints them without a traceback.
    explained: Sequence[type[Exception]] = ()

    def functions(self, vendor: str) -> Sequence[str]:  # noqa: ARG002
        """Return ``CREATE FUNCTION`` statements, each of a unique name ``django_counters_…``.

        Called after each ``migrate``, in the transaction that makes them. Other projects on the
        same database without this app leave them alone.

        Args:
            vendor: the database vendor: ``"postgresql"``, ``"mysql"`` or ``"sqlite"``.
        """
        return ()

    def jobs(self) -> Sequence[Job]:
        """Return the periodic jobs. Called by ``counters upkeep``, and by the Celery task."""
        return ()

    def prune(self, using: str) -> Mapping[str, int]:  # noqa: ARG002
        """Delete expired rows: how many of each kind, which the command prints.

        Called outside of transactions, by ``counters upkeep prune``. Deletes in small batches.
        """
        return {}

    def keeps_rows(self, options: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Return whether records of a field with these options may have rows to forget.

        The options are passed as the field received them. If a model has no such field, Django
        deletes its records without loading them. Called when models are made.
        """
        return True

    def forget(self, owner: str, keys: Sequence[str], using: str) -> None:
        """Delete what belongs to counters, as if they had never been counted.

        Called in the transaction that takes their values away: by ``forget()``, and when records
        are deleted.

        Args:
            owner: ``app.Model.field`` of their records; empty for named counters.
            keys: the keys, or the texts of primary keys; 500 at most.
            using: the database.

        """

    def drifts(self, using: str) -> Iterator[Drift]:  # noqa: ARG002
        """Return the counters whose numbers are wrong. Called by ``counters verify``."""
        return iter(())

    def findings(self, using: str) -> Iterator[Finding]:  # noqa: ARG002
        """Return findings for an operator. Called by ``counters doctor`` and the overview."""
        return iter(())


def features() -> list[Feature]:
    """Return the features of the installed apps, in the order of ``INSTALLED_APPS``."""
    # Before the apps are ready there are none.
    configs = apps.app_configs.values()
    found = {config.name: getattr(config, "counters_feature", None) for config in configs}
    for name, one in found.items():
        if one is not None and not isinstance(one, Feature):
            told = f"counters_feature of {name} is {one!r}. Set it to an instance of a Feature."
            raise ImproperlyConfigured(told)
    return [one for one in found.values() if isinstance(one, Feature)]


def absent() -> dict[str, Feature]:
    """Return the features in ``django_counters.contrib`` whose apps aren't installed, by app."""
    installed = {config.name for config in apps.app_configs.values()}
    contrib = import_module("django_counters.contrib")
    names = (f"{contrib.__name__}.{one.name}" for one in iter_modules(contrib.__path__))
    modules = {name: import_module(f"{name}.apps") for name in names if name not in installed}
    return {
        name: one.counters_feature
        for name, module in modules.items()
        for one in vars(module).values()
        if isinstance(getattr(one, "counters_feature", None), Feature)
    }


def app_of(option: str) -> str:
    """Return the app in ``django_counters.contrib`` that has to be installed for an option.

    Empty if no app has this option, or if its app is installed.
    """
    for name, feature in absent().items():
        if option in (one.name.upper() for each in feature.options for one in each.options):
            return name
    return ""


def forgetting() -> list[Feature]:
    """Return the features that have something to forget."""
    return [one for one in features() if type(one).forget is not Feature.forget]


def panels(
    request: HttpRequest, owner: str, key: str, using: str
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return template and context of each section that apps add to the page of a counter."""
    made: list[Panel] = [import_string(one.panel)() for one in features() if one.panel]
    found = ((one.template, one.context(request, owner, key, using)) for one in made)
    return [(template, context) for template, context in found if context is not None]


def rest_modules() -> list[Any]:
    """Return the modules that apps add to the API."""
    return [import_module(one.rest) for one in features() if one.rest]
