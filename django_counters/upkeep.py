"""Upkeep: rollup, pruning, verification, forgetting, and the tables of counters."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from typing import NamedTuple, TypeVar

from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.db import DEFAULT_DB_ALIAS, connections, migrations, models, router, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.models.functions import Left
from django.utils.module_loading import import_string

from django_counters import clock, tables
from django_counters.errors import CounterOverflow
from django_counters.event import actor_of
from django_counters.features import Drift, Feature, features, installed
from django_counters.ledger.inquiry import SqlInquiry
from django_counters.ledger.upkeep import compare, fold_entries
from django_counters.measure import Measure
from django_counters.registry import registry
from django_counters.signals import upkeep_done
from django_counters.stores.sql.batches import REMEMBERED, SqlBatches
from django_counters.stores.sql.dialects import dialect_of
from django_counters.stores.sql.folding import Folded, SqlFolding
from django_counters.stores.sql.incidents import record
from django_counters.stores.sql.tables import NAMED, slots
from django_counters.tables.schema import COUNTERS, SLOTS, CounterColumns
from django_counters.tables.total import TotalField
from django_counters.write.pages import SOURCE
from django_counters.write.records import column_of, place_of

logger = logging.getLogger("django_counters")
# -- Calls hooks of all installed features: an error in one of them doesn't stop the others.

_Result = TypeVar("_Result")


def contained(using: str) -> AbstractContextManager[object]:
    """Return a block whose error leaves the caller's transaction usable, if there is one.

    PostgreSQL refuses statements in a transaction in which one has failed.
    """
    joins = using and connections[using].in_atomic_block
    return transaction.atomic(using) if joins else nullcontext()


#: The features of strategies in this package, by folder. Counting imports none of them.
OWN = {
    "django_counters.ledger": "django_counters.ledger.operations.LEDGER",
    "django_counters.cached": "django_counters.cached.feature.CACHED",
}


def serving() -> dict[str, Feature]:
    """Return all features for upkeep, monitoring and commands, by app or folder."""
    return {**{name: import_string(path) for name, path in OWN.items()}, **installed()}


def attempted(
    using: str,
    hook: Callable[[Feature], _Result],
    failed: dict[str, str],
    raised: tuple[type[Exception], ...] = (),
) -> Iterator[tuple[str, _Result]]:
    """Call a hook of each feature: an error in one of them doesn't stop the others.

    Yields each app with its result.

    Args:
        using: the database that it uses; empty if it uses none.
        hook: the call.
        failed: the text of each error is put there, under its app. Its traceback is logged.
        raised: errors of these types are raised instead.
    """
    for app, feature in serving().items():
        block = contained(using)
        try:
            with block:
                result = hook(feature)
        except raised:
            raise
        except Exception as error:
            logger.exception("%s failed%s.", app, f" in the database {using}" if using else "")
            failed[app] = f"{type(error).__name__}: {error}".strip()
        else:
            yield app, result


# -- Where increments wait for their rollup, also under former names of fields and models.
# Migrations tell the former names: the amount under them belongs to the present ones.


class _Rename(NamedTuple):
    """The former name of a field of a model; of a model itself where ``model`` is empty."""

    app: str
    model: str
    old: str
    new: str


def present_name(label: str) -> str:
    """What ``app.Model.field`` is called now, as the project's migrations say.

    App and model are in small letters. Ask for a field only that does not exist: another one may
    have got its name meanwhile.
    """
    app, model, field = label.split(".", 2)
    app, model = app.lower(), model.lower()
    model = _now(app, model)
    for step in _renames():
        # The migration has the name that the model had then.
        if step.model and (step.app, _now(app, step.model)) == (app, model):
            field = step.new if step.old == field else field
    return f"{app}.{model}.{field}"


def _now(app: str, name: str) -> str:
    for step in _renames():
        if step[:3] == (app, "", name):
            name = step.new
    return name


def removed_fields() -> set[tuple[str, str, str]]:
    """Counter fields that were removed, and perhaps came back: app, present model, name."""
    counters, removed = set(), set()
    for app, step in _operations():
        for model, name in _counters_of(step):
            counters.add((app, _now(app, model), name))
        if isinstance(step, migrations.RenameField):
            model = _now(app, step.model_name_lower)
            if (app, model, step.old_name) in counters:
                counters.add((app, model, step.new_name))
        elif isinstance(step, migrations.RemoveField):
            removed.add((app, _now(app, step.model_name_lower), step.name))
    return counters & removed


def _counters_of(step: Operation) -> Iterator[tuple[str, str]]:
    """The counter fields that a migration makes, with their models."""
    if isinstance(step, migrations.CreateModel):
        for name, field in step.fields:
            if isinstance(field, TotalField):
                yield step.name_lower, name
    elif isinstance(step, migrations.AddField | migrations.AlterField) and isinstance(
        step.field, TotalField
    ):
        yield step.model_name_lower, step.name


# They are what they are for as long as the process runs.
@lru_cache(maxsize=1)
def _operations() -> Sequence[tuple[str, Operation]]:
    graph = MigrationLoader(None, ignore_no_migrations=True).graph
    plan = dict.fromkeys(key for leaf in graph.leaf_nodes() for key in graph.forwards_plan(leaf))
    return [
        (app.lower(), step)
        for app, name in plan
        for operation in graph.nodes[app, name].operations
        for step in _steps(operation)
    ]


def _steps(operation: Operation) -> Iterator[Operation]:
    if isinstance(operation, migrations.SeparateDatabaseAndState):
        for one in operation.state_operations:
            yield from _steps(one)
    else:
        yield operation


@lru_cache(maxsize=1)
def _renames() -> Sequence[_Rename]:
    return [rename for app, step in _operations() for rename in _of(app, step)]


def _of(app: str, step: Operation) -> Iterator[_Rename]:
    if isinstance(step, migrations.RenameModel):
        yield _Rename(app, "", step.old_name_lower, step.new_name_lower)
    elif isinstance(step, migrations.RenameField):
        yield _Rename(app, step.model_name_lower, step.old_name, step.new_name)


# Places of increments in one database.


@dataclass(frozen=True)
class Foldable:
    """The shards of all named counters, or the slots of one counter of a model's records.

    ``strategy`` is what the counter of the records declares; namespaces declare their own.
    ``left`` is what waits there, where that was asked for.
    """

    label: str
    folding: SqlFolding
    strategy: str = ""
    left: Folded | None = None


def places(using: str) -> Iterator[Foldable]:
    """The places that may hold something; what belongs to removed models is left alone."""
    if not COUNTERS.stands_in(using):
        return
    yield Foldable("shards", SqlFolding(NAMED, using, None))
    for column in sorted(columns(using), key=lambda field: (field.model._meta.label, field.name)):
        place = _place(column.model, column.name, using)
        left = place.folding.left()
        if left.rows:
            yield replace(place, left=left)
    for model, name in _undeclared(using):
        yield _renamed(model, name, using) or _place(model, name, using)


def renamed(using: str) -> Iterator[Foldable]:
    """Slots that have the name that a field had before, to be folded into its column."""
    return filter(None, (_renamed(model, name, using) for model, name in _undeclared(using)))


def _undeclared(using: str) -> Iterator[tuple[type[models.Model], str]]:
    declared = {(field.model, field.name) for field in columns(using)}
    kinds = ContentType.objects.db_manager(using)
    found = SLOTS.rows(using).filter(slot__gte=0).values_list("record_type", "name")
    for kind, name in found.distinct().order_by():
        model = kinds.get_for_id(kind).model_class()
        if model is not None and (model, name) not in declared:
            yield model, name


def _renamed(model: type[models.Model], name: str, using: str) -> Foldable | None:
    present = present_name(f"{model._meta.label}.{name}").split(".", 2)[2]
    column = column_of(model, present)
    if present == name or column is None:
        return None
    table = replace(column.place().table, pending=slots(model, name))
    folding = SqlFolding(table, using, model._meta.pk)
    return Foldable(f"slots of {model._meta.label}.{name}", folding, column.strategy)


def _place(model: type[models.Model], name: str, using: str) -> Foldable:
    table = place_of(model, name).table
    key = model._meta.pk if table.value else None
    label = f"slots of {model._meta.label}.{name}"
    column = column_of(model, name)
    # Counters without a column are in slots.
    strategy = "slotted" if column is None else column.strategy
    return Foldable(label, SqlFolding(table, using, key), strategy)


def columns(using: str) -> Iterator[TotalField]:
    """All counters of records that have a column, in the model that has it."""
    for model in apps.get_models():
        if router.allow_migrate_model(using, model):
            for field in model._meta.local_concrete_fields:
                if isinstance(field, TotalField) and not issubclass(model, CounterColumns):
                    yield field


def caches(using: str) -> dict[str, list[str]]:
    """Return each cache that a namespace or field declares, and who declares it."""
    found: dict[str, list[str]] = {}
    for namespace, policy in registry.policies().items():
        if policy.recipe.can.outside:
            found.setdefault(policy.recipe.cache, []).append(f"COUNTERS[{namespace!r}]")
    for column in columns(using):
        recipe = column.declared().recipe
        if recipe.can.outside:
            found.setdefault(recipe.cache, []).append(f"{column.model._meta.label}.{column.name}")
    return dict(sorted(found.items()))


class Stranger(NamedTuple):
    """Slots of a field or of a model that the project has no more, folded or not.

    ``has_model``: whether the model is there, and the field alone is gone.
    """

    kind: ContentType
    name: str
    rows: int
    amount: int
    has_model: bool


def strangers(using: str) -> Iterator[Stranger]:
    """The rest of fields and models that the project has no more. One question at most."""
    if not SLOTS.stands_in(using):
        return
    kinds = {kind.pk: kind for kind in ContentType.objects.using(using)}
    left = models.Q(record_type__in=[pk for pk, kind in kinds.items() if not kind.model_class()])
    removed = removed_fields()
    for kind in kinds.values():
        if model := kind.model_class():
            named = [name for *label, name in removed if label == [kind.app_label, kind.model]]
            for name in named:
                if column_of(model, name) is None:
                    left |= models.Q(record_type=kind.pk, name=name)
    slots = SLOTS.rows(using).filter(left)
    found = slots.values_list("record_type", "name").order_by("record_type", "name")
    for pk, name, rows, amount in found.annotate(models.Count("slot"), models.Sum("count")):
        yield Stranger(kinds[pk], name, rows, int(amount), bool(kinds[pk].model_class()))


# -- The measures that a database holds, and their names.


def declared_measures(using: str) -> Iterator[Measure]:
    """The measures of the counters that a database holds."""
    if COUNTERS.stands_in(using):
        for policy in registry.policies().values():
            if policy.measure is not None:
                yield policy.measure
    for model in apps.get_models(include_auto_created=True):
        if router.allow_migrate_model(using, model):
            for field in model._meta.local_concrete_fields:
                if isinstance(field, TotalField) and field.measure is not None:
                    yield field.measure


def make_measures(using: str) -> None:
    """Make the rows of all declared measures, so that no increment has to.

    One whose field has another name now, as the migrations say, keeps its row and its cells.
    """
    measures = registry.measures(using)
    declared = list(declared_measures(using))
    rows = tables.CounterMeasure._base_manager.using(using)
    known = set(rows.values_list("name", flat=True))
    for name in known - {measure.name for measure in declared}:
        if name.count(".") < 2:
            continue
        present = present_name(name)
        heirs = [one.name for one in declared if _as_migrations_say(one.name) == present]
        if heirs and heirs[0] not in known:
            rows.filter(name=name).update(name=heirs[0])
    for measure in declared:
        measures.ensure(measure)


def _as_migrations_say(label: str) -> str:
    """A label with the name of its model as migrations have it."""
    app, _, name = label.rpartition(".")
    return f"{app.lower()}.{name}"


# -- Forgets a person everywhere in one database: each app forgets its own rows.


def forget_actor(
    who: object,
    using: str = DEFAULT_DB_ALIAS,
    *,
    keep_counts: bool = False,
    dry_run: bool = False,
) -> dict[str, int]:
    """Delete what identifies a person in one database, and return how much of each kind.

    Can be called again after an interruption.

    Args:
        who: the person, as `increment` takes it.
        using: the database.
        keep_counts: leave each count as it is; else take back what the person counts.
        dry_run: count the rows, and change nothing.

    Raises:
        InvalidActor: this is no actor.
    """
    actor = actor_of(who)
    forgotten: Counter[str] = Counter()
    for feature in features():
        forgotten.update(
            feature.forget_actor(actor, using, keep_counts=keep_counts, dry_run=dry_run)
        )
    return dict(forgotten)


# -- The rollup: folds what waits in shards, slots and the ledger into the totals, once.

PAGE = 500


@dataclass
class RollupReport:
    """The result of a rollup, or of a dry run.

    Attributes:
        rows: how many rows of shards and slots were folded and are gone.
        counters: how often a total was changed: at most twice for each counter.
        orphans: how many rows waited for records that are no more, and were dropped.
        left: how many rows are there now: locked, or new.
        stuck: counters whose total would not fit, and slots whose record id cannot be one of their
            model; their increments stay pending.
        entries: how many entries of the ledger were folded.
        waiting: how many entries wait now: of transactions that have not ended, or new.
        others: rows of other apps that were folded, or wait for that in a dry run, by their name.
        failed: apps that couldn't fold theirs, and the error of each.
    """

    rows: int = 0
    counters: int = 0
    orphans: int = 0
    left: int = 0
    stuck: list[str] = field(default_factory=list)
    entries: int = 0
    waiting: int = 0
    others: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def rollup(
    using: str = DEFAULT_DB_ALIAS,
    *,
    dry_run: bool = False,
    page: int = PAGE,
) -> RollupReport:
    """Fold all shards and slots that are not locked, and all finished entries, into the totals.

    Each page of counters is one transaction for one half of their rows, so that writers always
    find a row that is free. Any number of rollups can run at once; a row is folded by one of them,
    exactly once, also when a process dies. Counters without increments end with no row but their
    total. The entries of the ledger are folded in one transaction, by one rollup at a time.
    Transactions are READ COMMITTED, also on connections that declare another level. Within a
    caller's transaction all of it is held until that ends.

    Args:
        using: the database.
        dry_run: count what waits, change nothing.
        page: how many counters a transaction folds.

    Raises:
        LedgerFenced: the ledger came from another server; shards and slots are folded.
    """
    report, began = RollupReport(), time.monotonic()
    for place in places(using):
        if not dry_run:
            _fold(place, page, report)
        report.left += place.folding.left().rows
    if COUNTERS.stands_in(using) and "ledger" not in dialect_of(using).lacks:
        if not dry_run:
            folded = fold_entries(using)
            report.entries += folded.entries
            report.counters += folded.counters
            report.stuck.extend(folded.stuck)
        report.waiting = SqlInquiry(NAMED, using).waiting()[0]
    of_apps = attempted(using, lambda one: one.rollup(using, dry_run=dry_run), report.failed)
    for _app, others in of_apps:
        report.others |= others
    if not dry_run:
        if COUNTERS.stands_in(using) and "ledger" in dialect_of(using).lacks:
            # The doctor asks when a rollup has ended. Elsewhere, folding entries stores it.
            _store_end(using)
        seconds = time.monotonic() - began
        upkeep_done.tell(RollupReport, work="rollup", using=using, seconds=seconds, report=report)
    return report


def _store_end(using: str) -> None:
    """Store when a rollup ended, unless another one stores it now: nobody waits for the row."""
    rows, now = tables.CounterHorizon._base_manager.using(using), clock.now()
    with transaction.atomic(using):
        if rows.select_for_update(skip_locked=True).first():
            rows.update(rolled_up_at=now)
        elif not rows.exists():
            rows.bulk_create([tables.CounterHorizon(rolled_up_at=now, pk=1)], ignore_conflicts=True)


def fold_renamed(using: str) -> None:
    """Fold what was counted in slots before fields got other names, so that values have it."""
    for place in renamed(using):
        _fold(place, PAGE, RollupReport())


def _fold(place: Foldable, page: int, report: RollupReport) -> None:
    for found in place.folding.pages(page):
        strange = place.folding.strange(found)
        report.stuck.extend(f"{place.label}:{key}" for key in strange)
        keys = [key for key in found if key not in strange]
        for remainder in (0, 1):
            rows, counters = _page(place, keys, remainder, report.stuck)
            report.rows += rows
            report.counters += counters
        report.orphans += place.folding.orphans(keys)


def _page(place: Foldable, keys: list[str], remainder: int, stuck: list[str]) -> Folded:
    """Fold a page; where one counter of it does not fit, each of them alone."""
    try:
        return place.folding.fold(keys, remainder)
    except CounterOverflow as error:
        if len(keys) == 1:
            label = error.key if place.strategy == "" else f"{place.label}:{error.key}"
            if label not in stuck:
                stuck.append(label)
            return Folded(0, 0)
    parts = [_page(place, [key], remainder, stuck) for key in keys]
    return Folded(sum(part.rows for part in parts), sum(part.counters for part in parts))


# -- Deletes expired rows.

INCIDENTS_KEPT = timedelta(days=366)
_BATCH = 1_000


def prune_all(using: str = DEFAULT_DB_ALIAS) -> tuple[dict[str, int], dict[str, str]]:
    """Delete all expired rows. Return how many of each kind, and the errors of apps by app."""
    failed: dict[str, str] = {}
    pruned = Counter(
        tokens=prune(using),
        generations=prune_landed(using),
        histories=prune_histories(using),
        incidents=prune_incidents(using),
    )
    for _app, rows in attempted(using, lambda feature: feature.prune(using), failed):
        pruned.update(rows)
    return dict(pruned), failed


def prune(using: str = DEFAULT_DB_ALIAS) -> int:
    """Forget tokens that are out of their window; how many those were. In small batches."""
    is_here = router.allow_migrate_model(using, tables.CounterToken)
    return registry.tokens(using).prune() if is_here else 0


def prune_landed(using: str = DEFAULT_DB_ALIAS) -> int:
    """Forget generations that landed 30 days ago; how many those were. In small batches.

    One that is forgotten cannot land again: a flush refuses what is older than 28 days. The clock
    is that of the database.
    """
    is_here = router.allow_migrate_model(using, tables.CounterBatch)
    return registry.kept(SqlBatches, using).prune() if is_here else 0


def prune_histories(using: str = DEFAULT_DB_ALIAS) -> int:
    """Delete histories of pages that stood still for 30 days, in small batches; return how many.

    None of them continues: after a day without a page, a new history begins. Published pages are
    refused when they are older than 28 days. The times are the database's.
    """
    if not router.allow_migrate_model(using, tables.CounterPosition):
        return 0
    before = registry.kept(SqlBatches, using).now() - REMEMBERED
    return registry.positions(using).prune(SOURCE, before)


def prune_incidents(using: str = DEFAULT_DB_ALIAS) -> int:
    """Forget incidents that were found a year ago; how many those were. In small batches."""
    if not router.allow_migrate_model(using, tables.CounterIncident):
        return 0
    rows = tables.CounterIncident._base_manager.using(using)
    old, number = rows.filter(found_at__lt=clock.now() - INCIDENTS_KEPT), 0
    while batch := list(old.values_list("pk", flat=True)[:_BATCH]):
        number += rows.filter(pk__in=batch).delete()[0]
    return number


# -- Whether values of the ledger are sums of their entries, and other sums what they should be.


@dataclass
class VerifyReport:
    """The findings of `verify`.

    Attributes:
        checked: how many counters were looked at.
        partitions: how many sealed partitions were counted again, as a whole.
        drifts: counters whose total is not the sum of their entries. Partitions whose entries have
            changed since they were sealed. Drifts of apps.
        failed: apps that couldn't compare theirs, and the error of each.
    """

    checked: int = 0
    partitions: int = 0
    drifts: list[Drift] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def verify(
    using: str = DEFAULT_DB_ALIAS,
    *,
    namespace: str | None = None,
    sample: int | None = None,
) -> VerifyReport:
    """Compare the totals of the ledger with its entries: archive + retained = total + tail.

    A deleted total is a difference even if all of its entries are pending.

    Counts from before the ledger, or by another strategy, are known and left out. Each difference
    becomes an incident; nothing is repaired. All counters are compared in one statement, so
    concurrent increments do no harm; sealed partitions are compared with the archive, one by one.

    Args:
        using: the database.
        namespace: only the counters of a namespace.
        sample: only so many counters, drawn again each time.
    """
    prefix = f"{namespace}:" if namespace else ""
    lacks = dialect_of(using).lacks
    report, keys = VerifyReport(), None if sample is None else list[str]()
    if "ledger" not in lacks:
        keys = None if sample is None else SqlInquiry(NAMED, using).sample(prefix, sample)
        report.partitions, report.drifts = compare(using, prefix, keys)
    known = COUNTERS.rows(using).filter(outside__isnull=False)
    if prefix:
        # Not "startswith", for which SQLite takes A for a.
        known = known.annotate(head=Left("key", len(prefix))).filter(head=prefix)
    report.checked = known.count() if keys is None else len(keys)
    if keys is None:
        for _app, drifts in attempted(using, lambda one: [*one.drifts(using)], report.failed):
            report.drifts += (drift for drift in drifts if drift.key.startswith(prefix))
    for drift in report.drifts:
        detail = {"expected": drift.expected, "actual": drift.actual}
        record(tables.CounterIncident.Kind.DRIFT, drift.key, detail, using)
    return report
