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

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite
    from django.http import HttpRequest
    from django.urls import URLPattern
    from django.utils.functional import Promise

    from django_counters.measure import Kind
    from django_counters.options import Option, Projection
    from django_counters.strategies.base import Intake


# Data that hooks take and return.


class Reader(Protocol):
    """Reads the values of counters of one database."""

    def value(self, key: Hashable) -> int:
        """Return one value; zero if the counter was never counted."""

    def values(
        self, keys: Iterable[Hashable], max_age: float | None = None
    ) -> Mapping[Hashable, int]:
        """Return the values that exist. Cached ones are up to ``max_age`` seconds old."""


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


class Done(NamedTuple):
    """The result of a job.

    Attributes:
        text: a line for people.
        data: the same as names and numbers, texts or lists of those, which JSON can express.
        problems: what a person has to look at. The command ends with an error if there are some.
        retry: whether to do the job again before its interval has passed, as after an error.
    """

    text: str
    data: Mapping[str, Any]
    problems: Sequence[str] = ()
    retry: bool = False


class Drift(NamedTuple):
    """A counter with a wrong total: the ``expected`` one, and the ``actual`` one."""

    key: str
    expected: int
    actual: int


class Leftover(NamedTuple):
    """Rows that matter, though the app that looks after them isn't installed.

    Attributes:
        what: what they are.
        rows: how many there are.
        remedy: what to do about them before the app is removed.
    """

    what: str
    rows: int
    remedy: str


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


class Tally(NamedTuple):
    """A metric of an app: how often a signal was sent.

    Attributes:
        name: as Prometheus shows it: ``django_counters_…_total``.
        meaning: its help text.
        labels: arguments of the signal. Each has few values: a key is never one.
        signal: the dotted path of the signal.
    """

    name: str
    meaning: str
    labels: tuple[str, ...]
    signal: str


class Gauge(NamedTuple):
    """A metric of an app, with the label ``database`` and its own.

    Attributes:
        name: as Prometheus shows it.
        meaning: its help text.
        labels: its own labels. Each has few values: a key is never one.
    """

    name: str
    meaning: str
    labels: tuple[str, ...] = ()


class GaugeValue(NamedTuple):
    """One value of a gauge, with the values of its own labels in their order."""

    gauge: Gauge
    labels: tuple[str, ...]
    value: float


class OnPage(NamedTuple):
    """A counter on a page of the admin, which the user may view.

    Attributes:
        owner: ``app.Model.field`` of its record; empty for a named counter.
        key: its key, or the text of the record's primary key.
        using: the database.
        site: the admin site of the page.
        adjusts: whether the user may adjust it.
        field: ``app.Model.field`` with the model of the page, for the addresses of forms.
        name: the verbose name of the field.
    """

    owner: str
    key: str
    using: str
    site: AdminSite
    adjusts: bool = False
    field: str = ""
    name: str = ""


class Panel:
    """A section of the page of a counter in the admin, and of a record with counter fields."""

    #: The path of its template, which gets ``panel``: the result of `context`.
    template: str

    def context(
        self,
        request: HttpRequest,  # noqa: ARG002
        counter: OnPage,  # noqa: ARG002
    ) -> Mapping[str, Any] | None:
        """Return the template's context for one counter; None hides the section."""
        return None

    def urls(self, page: Any) -> Sequence[URLPattern]:  # noqa: ARG002
        """Return the addresses of its forms, beside those of the admin of counters.

        ``page`` is that admin: ``page.adjustable(request)`` returns the counter of a form, whose
        address has the parameters ``field`` and ``key``; ``page.permitted(request, object_id)``
        that of a page. Both check the permission.
        """
        return ()


class Section(Protocol):
    """A section of the overview in the admin."""

    #: The path of its template, which gets ``section``: the result of `context`.
    template: str

    def context(self, request: HttpRequest, using: str) -> Mapping[str, Any] | None:
        """Return the template's context for one database; None hides the section."""


# The hooks.


class Feature:
    """What one app adds. It overrides what it needs; each method here adds nothing.

    An error in `jobs`, a job, `rollup`, `prune`, `drifts`, `gauges`, `parts`, `inquiries` or
    findings doesn't stop other apps: it is logged, and reported under the app's name. If a server
    is unavailable, the findings of all apps are unknown. Other errors end what calls the method.
    """

    # Options of namespaces and fields.

    #: Options of namespaces and fields, with their checks. `conf` reads them whenever it parses
    #: ``COUNTERS``, and `CounterField` when it is made. Their values are in
    #: ``registry.policy(key).options`` of declared namespaces, and among the arguments of a field.
    options: Sequence[Projection] = ()

    #: Options of namespaces alone, in capitals. Their values are in
    #: ``registry.policy(key).options``, too.
    namespace_options: Sequence[Option] = ()

    #: The names of the settings that only this app reads. While the app of a capability in
    #: ``django_counters.contrib`` isn't installed, a check reports each of them that is set.
    settings: Sequence[str] = ()

    def hints(self) -> Mapping[str, str]:
        """Return what to do about each problem of its options, by the id of the check."""
        return {}

    def namespace_problems(
        self,
        name: str,  # noqa: ARG002
        declared: Mapping[Any, Any],  # noqa: ARG002
    ) -> Iterator[tuple[str, str]]:
        """Return what is wrong in a namespace of ``COUNTERS``: ids of checks, and messages.

        The values that `namespace_options` accept are checked already. Called whenever ``COUNTERS``
        is parsed or checked.
        """
        return iter(())

    def namespaces(
        self,
        declared: Mapping[str, Any],  # noqa: ARG002
    ) -> Mapping[str, Mapping[str, Any]]:
        """Return the namespaces that this app keeps for itself, with their options.

        Called whenever ``COUNTERS`` is parsed; ``declared`` has the policies of its namespaces.
        """
        return {}

    #: Strategies by name, each the dotted path of a `strategies.declaring.Declaration`. It is
    #: imported when a setting or a field names the strategy.
    strategies: Mapping[str, str] = MappingProxyType({})

    # The write path.

    #: The kinds of rows that a change adds to, in the statement that changes its total. On
    #: PostgreSQL, each kind with numbers gets a function.
    kinds: Sequence[Kind] = ()

    #: The dotted path of a `projector.Projector`, which makes the effects of changes: those of its
    #: own kinds. That of `django_counters.contrib.series` makes them for each kind with periods.
    projector: str = ""

    def imported_first(self) -> Sequence[str]:
        """Return the modules that counting imports when it first needs them.

        Called when the core is ready, which imports them: a child that is forked while another
        thread imports a module waits for that thread forever.
        """
        return ()

    def functions(self, vendor: str) -> Sequence[str]:  # noqa: ARG002
        """Return ``CREATE FUNCTION`` statements, each of a unique name ``django_counters_…``.

        Called after each ``migrate``, in the transaction that makes them. Other projects on the
        same database without this app leave them alone.

        Args:
            vendor: the database vendor: ``"postgresql"``, ``"mysql"`` or ``"sqlite"``.
        """
        return ()

    def outlets(self) -> Mapping[str, Callable[[Any, str], Any]]:
        """Return where pages of merged increments can be sent, by the name of each.

        Each value takes a `Recipe` and the alias of a database, and returns a
        `write.pages.Lander`. Called by checks, and outside of transactions.
        """
        return {}

    def intake(self, options: Mapping[str, Any]) -> Intake | None:  # noqa: ARG002
        """Return what takes the changes of a namespace with these options before they are counted.

        None if nothing does. Called whenever ``COUNTERS`` is parsed. The first app that returns an
        intake has the namespace.
        """
        return None

    def end_process(self) -> None:
        """Finish what this process keeps. Called when a process of a Celery worker ends.

        Such a process ends without calling functions of `atexit`.
        """

    def clear(self) -> None:
        """Drop what this process keeps. Called before and after each test."""

    def landing(self, using: str) -> Hashable:  # noqa: ARG002
        """Return a value that must not change while cached counters land in a database.

        Called before a flush reads from Redis, and again in each transaction that lands increments.
        If the answer has changed, that transaction is rolled back and the next flush starts again.

        Raises:
            LandingRefused: nothing may land now. The flush reports the reason.
        """
        return None

    def keeps_rows(self, field: Any) -> bool:  # noqa: ARG002
        """Return whether records of a `CounterField` may have rows to forget.

        Its ``options`` are as the field received them. If a model has no such field, Django deletes
        its records without loading them. Called when models are made.
        """
        return True

    # Reading.

    def spread(
        self,
        options: Mapping[str, Any],  # noqa: ARG002
    ) -> Callable[[Any, str], Reader] | None:
        """Return what reads values if other databases count these counters, too; else None.

        It takes the policy and the alias of a database. It is called for each read; equal readers
        read their counters together. What one database can't promise is refused: bounds of a call,
        maxima, holds and readings. Called whenever ``COUNTERS`` is parsed.

        Args:
            options: the options of a namespace.
        """
        return None

    # Upkeep.

    def jobs(self) -> Sequence[Job]:
        """Return the periodic jobs. Called by ``counters upkeep``, and by the Celery task."""
        return ()

    def rollup(self, using: str, *, dry_run: bool) -> Mapping[str, int]:  # noqa: ARG002
        """Fold pending rows: how many of each kind, also in a dry run, which changes nothing.

        Called by each rollup after the totals, outside of transactions as a rule.
        """
        return {}

    def prune(self, using: str) -> Mapping[str, int]:  # noqa: ARG002
        """Delete expired rows: how many of each kind, which the command prints.

        Called outside of transactions, by ``counters upkeep prune``. Deletes in small batches.
        """
        return {}

    def drifts(self, using: str) -> Iterator[Drift]:  # noqa: ARG002
        """Return the counters whose numbers are wrong. Called by ``counters verify``."""
        return iter(())

    def forget(self, owner: str, keys: Sequence[str], using: str) -> None:
        """Delete what belongs to counters, as if they had never been counted.

        Called in the transaction that takes their values away: by ``forget()``, and when records
        are deleted.

        Args:
            owner: ``app.Model.field`` of their records; empty for named counters.
            keys: the keys, or the texts of primary keys; 500 at most.
            using: the database.

        """

    def forget_actor(
        self,
        actor: str,  # noqa: ARG002
        using: str,  # noqa: ARG002
        *,
        keep_counts: bool,  # noqa: ARG002
        dry_run: bool,  # noqa: ARG002
    ) -> Mapping[str, int]:
        """Delete what identifies a person: how much of each kind, which the command prints.

        Called outside of transactions, by ``counters forget-actor``. It is called again after an
        interruption.

        Args:
            actor: the text that identifies the person.
            using: the database.
            keep_counts: leave each count as it is; else take back what the person counts.
            dry_run: count the rows, and change nothing.

        """
        return {}

    #: The tables with rows about counters. They have to be in the database of their counters: a
    #: check compares what routers say of both.
    tables: Sequence[str] = ()

    #: What people call these rows, if they must not be left behind when the app is removed.
    left: str = ""

    def leftovers(self, using: str) -> Iterator[Leftover]:  # noqa: ARG002
        """Return the rows, if only some of them must not be left behind.

        Called by ``check --database`` while the app is in `django_counters.contrib`, isn't
        installed, and its `tables` exist. It imports no models.
        """
        return iter(())

    def remembers(self) -> bool:
        """Return whether a process or Redis now keeps something that tenants must not share.

        Called by the check E060. Connects to nothing.
        """
        return False

    # The admin.

    #: The dotted path of a `Panel`. It is made for each page.
    panel: str = ""

    #: The dotted path of a `Section`. It is made for each overview.
    section: str = ""

    #: The dotted paths of columns of the list: each a function ``column(readings, using)`` with a
    #: ``short_description``, which returns texts by key.
    columns: Sequence[str] = ()

    # The API.

    #: The dotted path of a module with ``urlpatterns``, which `django_counters.rest.urls` includes,
    #: and perhaps ``PROBLEMS``, a mapping of errors to `rest.problems.ProblemKind`.
    rest: str = ""

    #: Actions of the API that namespaces and ``expose()`` can permit, and the Django permission
    #: that ``"permission"`` asks for: ``{"cheer": "shop.cheer_counter"}``. A view names its action
    #: by a subclass of `rest.permissions.CounterPermission`.
    actions: Mapping[str, str] = MappingProxyType({})

    #: The same for actions that change nothing: ``"anyone"`` can be permitted to do them.
    reads: Mapping[str, str] = MappingProxyType({})

    #: The dotted path of a function ``charge(request, namespace, access, changes)``. The API calls
    #: it with the `Access` of a namespace and the number of its counters, before it changes them,
    #: outside of transactions. It raises an exception of REST framework to refuse.
    charge: str = ""

    #: Whether `charge` keeps the rates ``limit``, ``burst`` and ``network_limits`` of ``API``.
    #: Without an app that does, a check refuses these rates.
    keeps_rates: bool = False

    # Monitoring.

    #: Metrics that count signals, in each process that imports
    #: `django_counters.metrics.prometheus`.
    tallies: Sequence[Tally] = ()

    def findings(self, using: str) -> Iterator[Finding | GaugeValue]:  # noqa: ARG002
        """Return findings for an operator, and the values of `gauges`.

        Called by ``counters doctor``, the overview and each scrape of metrics.
        """
        return iter(())

    def local_findings(self, using: str) -> Iterator[Finding | GaugeValue]:  # noqa: ARG002
        """Return findings and values of `gauges` that need no database.

        Called as `findings` is, even if the database is unavailable.
        """
        return iter(())

    def inquiries(self, using: str) -> Iterator[Finding]:  # noqa: ARG002
        """Return more findings, for which other servers are asked. Called by ``counters doctor``.

        It must end within some seconds.
        """
        return iter(())

    def foreign_databases(self) -> Collection[str]:
        """Return the databases that belong to other sites: monitoring leaves them out."""
        return ()

    def parts(self) -> Sequence[Any]:
        """Return the parts of a database's state that can be unavailable on their own.

        Each is a `metrics.facts.Part`. Called by the doctor, the overview and each scrape.
        """
        return ()

    def gauges(self) -> Sequence[Gauge]:
        """Return the metrics whose values findings and parts return. Called on each scrape."""
        return ()

    # Commands.

    #: Sub-commands of ``manage.py counters``, by name: the dotted path of a module with ``HELP``,
    #: ``add_arguments(parser)`` and ``handle(command, using, **options)``. The command imports
    #: these modules whenever it starts.
    commands: Mapping[str, str] = {}


# What the core calls: the features that are installed, and those that aren't.


def installed() -> dict[str, Feature]:
    """Return the features of the installed apps by app, in the order of ``INSTALLED_APPS``."""
    # Before the apps are ready there are none.
    configs = apps.app_configs.values()
    declared = {config.name: getattr(config, "counters_feature", None) for config in configs}
    for name, feature in declared.items():
        if feature is not None and not isinstance(feature, Feature):
            problem = (
                f"counters_feature of {name} is {feature!r}. Set it to an instance of a Feature."
            )
            raise ImproperlyConfigured(problem)
    return {name: feature for name, feature in declared.items() if isinstance(feature, Feature)}


def features() -> list[Feature]:
    """Return the features of the installed apps, in the order of ``INSTALLED_APPS``."""
    return list(installed().values())


@cache
def _contributed(folders: tuple[str, ...]) -> dict[str, Feature]:
    contrib = "django_counters.contrib"
    modules = (import_module(f"{contrib}.{module.name}.apps") for module in iter_modules(folders))
    configs = (value for module in modules for value in vars(module).values())
    declared = ((config, getattr(config, "counters_feature", None)) for config in configs)
    return {config.name: value for config, value in declared if isinstance(value, Feature)}


def absent() -> dict[str, Feature]:
    """Return the features in ``django_counters.contrib`` whose apps aren't installed, by app."""
    names = {config.name for config in apps.app_configs.values()}
    folders = tuple(import_module("django_counters.contrib").__path__)
    contributed = _contributed(folders).items()
    return {name: feature for name, feature in contributed if name not in names}


def contrib_label(app: str) -> str:
    """Return the label of an app in ``django_counters.contrib``."""
    return f"django_counters_{app.rpartition('.')[2]}"


def absent_app(has: Callable[[Feature], object]) -> str:
    """Return which apps in ``django_counters.contrib`` have to be installed for something.

    Args:
        has: whether a feature has it.

    Returns:
        Their names in quotes, joined by "or"; empty if no absent app has it.
    """
    return " or ".join(repr(name) for name, feature in absent().items() if has(feature))


def needs(app: str) -> None:
    """Refuse to import a module of an app in contrib that isn't installed.

    Raises:
        ImproperlyConfigured: the app isn't installed.
    """
    if not apps.is_installed(app):
        raise ImproperlyConfigured(f"Add {app!r} to INSTALLED_APPS.")


def exported(
    app: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of an app's package in contrib.

    The names are resolved on first use, because Django imports the package before it has models.
    Without the app in ``INSTALLED_APPS``, they raise `ImproperlyConfigured`.

    Args:
        app: its dotted path.
        homes: the modules of its names.
    """
    names = sorted(homes)

    def resolved(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {app!r} has no attribute {name!r}")
        needs(app)
        value = getattr(import_module(f"{app}.{homes[name]}"), name)
        # From now on Python finds it without this function.
        vars(import_module(app))[name] = value
        return value

    return resolved, lambda: names, names


# What the core calls: the declarations of all installed features together.


def forgetting() -> list[Feature]:
    """Return the features that have something to forget."""
    return [feature for feature in features() if type(feature).forget is not Feature.forget]


def rest_modules() -> list[Any]:
    """Return the modules that apps add to the API."""
    return [import_module(feature.rest) for feature in features() if feature.rest]


def reads() -> dict[str, str]:
    """Return the actions that change nothing among `actions`."""
    return {name: permission for one in features() for name, permission in one.reads.items()}


def actions() -> dict[str, str]:
    """Return the actions that apps add to the API, with their permissions."""
    found = {name: permission for one in features() for name, permission in one.actions.items()}
    return {**found, **reads()}


def charges() -> list[Callable[[Any, str, Any, int], object]]:
    """Return the functions that the API calls before it changes counters."""
    return [import_string(feature.charge) for feature in features() if feature.charge]
