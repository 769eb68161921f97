"""The ``COUNTERS`` setting: its options and their meaning. Keeps no state.

Strategies and projections declare their options beside themselves, and are listed here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from django.utils.module_loading import import_string

from django_counters import effects, errors
from django_counters.access import (
    AUDITED,
    CLOSED,
    CREATED,
    UPKEEP,
    Access,
    access_of,
    access_problems,
)
from django_counters.features import Feature, Reader, absent_app, features
from django_counters.measure import Measure
from django_counters.options import Option, Projection, did_you_mean, is_integer
from django_counters.strategies import base, exact
from django_counters.strategies.declaring import MAX_AGE, Declaration, Recipe
from django_counters.types import UNBOUNDED, Bounds, check_integer, why_no_key

# The declaration of each strategy of this package. It is imported when a setting or a field names
# the strategy, or when an error lists all of them.
STRATEGIES: Mapping[str, str] = MappingProxyType(
    {
        "exact": "django_counters.strategies.exact.EXACT",
        "sharded": "django_counters.strategies.spread.SHARDED",
        "slotted": "django_counters.strategies.spread.SLOTTED",
        "ledger": "django_counters.ledger.strategy.DECLARED",
        "cached": "django_counters.cached.strategy.DECLARED",
    }
)
DEFAULT = "default"
EXACT = exact.EXACT.recipe()


# The options of all namespaces and fields, regardless of their strategy; fields in small letters.
COMMON = (
    Option(
        "STRATEGY",
        "exact",
        "one of the [strategies](#strategies)",
        "Where increments wait for their rollup.",
    ),
    Option(
        "FLOOR",
        None,
        "None or an integer of 64 bits",
        "Counting never takes a counter below it: `InsufficientCount` is raised instead.",
    ),
    Option(
        "APPROVE_ABOVE",
        None,
        "None or an integer from 0 on",
        "By how much one person alone may "
        "[adjust](../adjustments.md#a-second-person) a counter, up or down; "
        "more needs a second person. None: by any amount.",
        lambda value: value is None or is_integer(value, 0),
        code="E023",
    ),
)
_OF_NAMESPACES = (
    Option(
        "API",
        None,
        "dictionary of [who may what](#api), or None",
        "Who may reach the counters over HTTP. None: no one.",
    ),
    Option("OPTIONS", {}, "dictionary of the options below", "Options of the strategy."),
)


def value_ceiling(ceiling: Any) -> Any:
    """The ceiling of the value; None where there is none, or one for periods."""
    return None if isinstance(ceiling, Mapping) else ceiling


def ceiling_app(ceiling: object) -> str:
    """Return which apps have to be installed for a ceiling of periods; empty if none has."""
    if not isinstance(ceiling, Mapping) or any("ceiling" in one.takes for one in projections()):
        return ""
    return absent_app(lambda feature: any("ceiling" in one.takes for one in feature.options))


def _ceiling_problems(ceiling: object, **_: object) -> Iterator[str]:
    if app := ceiling_app(ceiling):
        yield f"a ceiling of periods needs {app} in INSTALLED_APPS."


_CEILING = Projection(
    name="ceilings",
    options=(
        Option(
            "ceiling",
            None,
            "None, an integer of 64 bits, or a dictionary of periods and integers",
            "Counting never takes a counter above it: `CeilingExceeded` is raised instead. For "
            "periods it is a [quota](../series.md#quotas): how much may be counted in "
            "each; `QuotaExceeded` is raised instead.",
        ),
    ),
    problems=_ceiling_problems,
    make=lambda **_: {},
    in_namespaces="E036",
    in_fields="E037",
    spread="no database can keep it for the others",
)
_OWN: tuple[Projection, ...] = (_CEILING,)


@dataclass(frozen=True, slots=True)
class Policy:
    """The declarations of a namespace for its counters.

    ``options``: those of its strategy and of projections, by their names in small letters.
    ``approve_above``: by how much one person alone may adjust a counter; None: by any amount.
    ``access``: who may reach the counters over HTTP. ``measure``: the measure beside the total;
    None where none is declared. ``intake``: what
    takes changes before they are counted; None if nothing does. ``spread``: what makes their reader
    if other databases count them, too; None if this one counts alone.
    """

    recipe: Recipe = EXACT
    bounds: Bounds = UNBOUNDED
    options: Mapping[str, Any] = field(default_factory=dict)
    approve_above: int | None = None
    access: Access = CLOSED
    measure: Measure | None = None
    intake: base.Intake | None = None
    spread: Callable[[Any, str], Reader] | None = None

    @property
    def max_age(self) -> float:
        """How old a total may be where a cached read does not say it, in seconds."""
        age: float = self.options.get("max_age", MAX_AGE)
        return age

    @property
    def retention_days(self) -> int | None:
        """For how long the ledger keeps its entries; None for ever."""
        days: int | None = self.options.get("retention_days")
        return days


class SettingProblem(NamedTuple):
    """One thing that is wrong in ``COUNTERS``; ``code`` is the id of the check that reports it."""

    code: str
    message: str


def own_options() -> set[str]:
    """Return the names of all options of this package, in capitals."""
    declared = map(_imported, STRATEGIES.values())
    of_strategies = (
        option for one in declared for option in (*(one.namespaces or ()), *(one.fields or ()))
    )
    projected = (option for one in _OWN for option in one.options)
    known = (*COMMON, *of_strategies, *projected, *_OF_NAMESPACES)
    return {option.name.upper() for option in known}


def _imported(path: str) -> Declaration:
    declaration: Declaration = import_string(path)
    return declaration


def _paths() -> dict[str, str]:
    of_apps = {name: path for one in features() for name, path in one.strategies.items()}
    # Ours come first, and no app replaces them.
    return {**STRATEGIES, **of_apps, **STRATEGIES}


def declarations() -> list[Declaration]:
    """Import and return all strategies: our own, and those of other apps."""
    return [_imported(path) for path in _paths().values()]


def strategies() -> dict[str, Declaration]:
    """Import and return the strategies of named counters."""
    return {one.name: one for one in declarations() if one.namespaces is not None}


def field_strategies() -> dict[str, Declaration]:
    """Import and return the strategies of fields."""
    return {one.name: one for one in declarations() if one.fields is not None}


def declared_strategy(name: object) -> Declaration | None:
    """Return the strategy of a name, for namespaces or fields; None if there is none."""
    path = _paths().get(name) if isinstance(name, str) else None
    return _imported(path) if path else None


def namespace_strategy(name: object) -> Declaration | None:
    """Return the strategy of named counters with a name; None if there is none."""
    found = declared_strategy(name)
    return found if found and found.namespaces is not None else None


def field_strategy(name: object) -> Declaration | None:
    """Return the strategy of fields with a name; None if there is none."""
    found = declared_strategy(name)
    return found if found and found.fields is not None else None


def projections() -> tuple[Projection, ...]:
    """The options that are no strategy's: our own, and those of other apps."""
    return (*_OWN, *(one for each in features() for one in each.options))


def namespace_options(of: Collection[Declaration] | None = None) -> tuple[Option, ...]:
    """Return the options beside ``STRATEGY``: those of all strategies, or of some."""
    asked = strategies().values() if of is None else of
    own = [option for one in asked for option in one.namespaces or ()]
    capital = {option.name: option for option in own if option.name.isupper()}
    return (*COMMON, *capital.values(), *_projected(), *_OF_NAMESPACES, *_added())


def _added() -> list[Option]:
    """The options of namespaces alone that other apps add."""
    return [option for one in features() for option in one.namespace_options]


def owners() -> dict[str, str]:
    """Options that stand beside ``STRATEGY``, and the strategy that has them."""
    found = ((option, one) for one in strategies().values() for option in one.namespaces or ())
    return {option.name: one.name for option, one in found if option.name.isupper()}


def field_options(strategy: str, names: Collection[str] | None = None) -> dict[str, Option]:
    """Return the options of a field beside ``COMMON``; its own strategy decides on shared names.

    Other strategies are imported only if ``names`` has more than its own; None: all are asked for.
    """
    declared = field_strategy(strategy)
    own = [*((declared and declared.fields) or ())]
    own += [option for one in projections() for option in one.options]
    known = {option.name: option for option in own}
    if names is not None and known.keys() >= set(names):
        return known
    others = [option for one in field_strategies().values() for option in one.fields or ()]
    return {**{option.name: option for option in others}, **known}


def _projected() -> list[Option]:
    options = [option for one in projections() for option in one.options]
    return [option._replace(name=option.name.upper()) for option in options]


def policies(setting: object) -> Mapping[str, Policy]:
    """Return the policy of each declared namespace.

    Raises:
        InvalidConfiguration: something is wrong; the message names the first problem.
    """
    for problem in problems(setting):
        raise errors.InvalidConfiguration(problem=problem.message)
    given: Any = setting or {}
    declared = {name: _policy(name, options) for name, options in given.items()}
    for one in features():
        kept = one.namespaces(declared)
        declared |= {name: _policy(name, options) for name, options in kept.items()}
    return MappingProxyType({DEFAULT: Policy(), **declared})


def _policy(name: str, declared: Mapping[str, Any]) -> Policy:
    strategy = namespace_strategy(declared.get("STRATEGY", "exact"))
    assert strategy is not None
    own = (*(strategy.namespaces or ()), *_projected(), *_added())
    options = {option.key: _value(declared, option) for option in own}
    # The first that isn't None: an app's own may be falsy.
    intakes = (intake for one in features() if (intake := one.intake(options)) is not None)
    spreads = (spread for one in features() if (spread := one.spread(options)) is not None)
    return Policy(
        strategy.recipe(options),
        _bounds(declared),
        options,
        approve_above=declared.get("APPROVE_ABOVE"),
        access=access_of(declared.get("API")),
        measure=measure_of(name, options),
        intake=next(intakes, None),
        spread=next(spreads, None),
    )


def measure_of(owner: str, options: Mapping[str, Any]) -> Measure | None:
    """The measure of a namespace or a field, by its options; None: only the total is counted."""
    given, parts = projected_options(options), dict[str, Any]()
    for one in projections():
        for name, part in one.make(**given).items():
            if type(part) is tuple:
                parts[name] = (*parts.get(name, ()), *part)
            elif part is not None:
                parts[name] = part
    made = effects.projector()
    parts = made.completed(parts) if made else parts
    names = [name for name in parts if name not in Measure._fields]
    declared = tuple((name, part) for name in names if (part := parts.pop(name)))
    if not declared and not any(parts.values()):
        return None
    return Measure(owner, **parts, options=declared, projector=made)


def projected_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of projections among those that are given, and the defaults of others."""
    known = (option for one in projections() for option in one.options)
    return {option.name: options.get(option.name, option.default) for option in known}


def irreversible(options: Mapping[str, Any]) -> str:
    """Return why a counted quantity can't be taken back later; empty if it can."""
    given = projected_options(options)
    found = (one for one in projections() if one.irreversible and any(one.make(**given).values()))
    return next((one.irreversible for one in found), "")


def _bounds(declared: Mapping[Any, Any]) -> Bounds:
    return Bounds(declared.get("FLOOR"), value_ceiling(declared.get("CEILING")))


def _value(declared: Mapping[Any, Any], option: Option) -> Any:
    """The declaration, or the default; small letters stand within ``OPTIONS``."""
    found = declared if option.name.isupper() else declared.get("OPTIONS", {})
    return found.get(option.name, option.default)


def problems(setting: object) -> Iterator[SettingProblem]:
    """Yield all that is wrong in the value of ``COUNTERS``."""
    if setting is None:
        return
    if not isinstance(setting, Mapping):
        yield SettingProblem("E001", "COUNTERS must be a dictionary of namespaces.")
        return
    for name, options in setting.items():
        yield from _name_problems(name)
        if isinstance(options, Mapping):
            yield from _option_problems(f"COUNTERS[{name!r}]", options)
            yield from _access_problems(str(name), options.get("API"))
            for one in features():
                for code, message in one.namespace_problems(str(name), options):
                    yield SettingProblem(code, f"COUNTERS[{name!r}]: {message}")
        else:
            yield SettingProblem("E001", f"COUNTERS[{name!r}] must be a dictionary of options.")


def _name_problems(name: object) -> Iterator[SettingProblem]:
    reason = why_no_key(name)
    if reason is None and ":" in str(name):
        reason = "it contains a colon"
    elif reason is None and name != DEFAULT and str(name).lower() == DEFAULT:
        reason = f"what is not declared has the policy of {DEFAULT!r}, in small letters"
    if reason:
        yield SettingProblem("E002", f"{name!r} cannot be a namespace: {reason}.")


def _unknown_option(where: str, name: object, known: tuple[str, ...]) -> SettingProblem:
    small = str(name).lower()
    if app := absent_option(small):
        return SettingProblem("E062", f"{where}: {small.upper()} needs {app} in INSTALLED_APPS.")
    of_strategies = (option for one in strategies().values() for option in one.namespaces or ())
    is_within = small in (option.name for option in of_strategies)
    guess = f" Write {small!r} within OPTIONS." if is_within else did_you_mean(name, known)
    return SettingProblem("E003", f"{where} has an unknown option {name!r}.{guess}")


def absent_option(name: str, *, of_field: bool = False) -> str:
    """Return which apps have to be installed for an option in small letters; empty if none has."""

    def has(feature: Feature) -> bool:
        options = [option for one in feature.options for option in one.options]
        options += () if of_field else feature.namespace_options
        return name in (option.name.lower() for option in options)

    return absent_app(has)


def _option_problems(where: str, declared: Mapping[Any, Any]) -> Iterator[SettingProblem]:
    name = declared.get("STRATEGY", "exact")
    strategy = namespace_strategy(name)
    own = namespace_options([strategy] if strategy else [])
    # Others are imported only if one of them may have the option.
    if not declared.keys() <= {option.name for option in own}:
        known = tuple(option.name for option in namespace_options())
        for option in declared:
            if option not in known:
                yield _unknown_option(where, option, known)
    if strategy:
        yield from _strategy_problems(where, strategy, declared)
    else:
        guess = other_strategy(name, strategies())
        yield SettingProblem("E004", f"{where} has an unknown strategy {name!r}.{guess}")
    for code, message in _value_problems(declared):
        yield SettingProblem(code, f"{where}: {message}")


def _value_problems(declared: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """The problems of values that do not depend on the strategy."""
    for message in bounds_problems(*_bounds(declared)):
        yield "E005", message
    for option in (*COMMON, *_OF_NAMESPACES, *_added()):
        for message in option.problems(_value(declared, option)):
            yield option.code, message
    given = _given(declared)
    for one in projections():
        for message in one.problems(**given):
            yield one.in_namespaces, message


def conflicts(
    strategy: Declaration, bounds: Bounds, given: Mapping[str, Any], *, of_field: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield which projections cannot stand beside a strategy, bounds and each other."""
    options = projected_options(given)
    alone: dict[str, list[str]] = {"condition": [], "guard": []}
    for one in projections():
        code = one.in_fields if of_field else one.in_namespaces
        for message in one.against(
            **options, strategy=strategy.name, can=strategy.can, bounds=bounds
        ):
            yield code, message
        made = {} if any(one.problems(**options)) else one.make(**options)
        for part, names in alone.items():
            if made.get(part) is not None:
                names.append((*(option.name for option in one.options), *one.takes)[0])
                if len(names) > 1:
                    both = " and ".join(names)
                    yield code, f"{both} each declare a {part}. Remove one of them."


def unheld(
    strategy: Declaration, bounds: Bounds, offered: Callable[[], Mapping[str, Declaration]]
) -> Iterator[str]:
    """Yield which bounds a strategy does not hold, and which of those that are offered do."""
    for name, bound, held in (
        ("floor", bounds.floor, strategy.can.floors),
        ("ceiling", bounds.ceiling, strategy.can.ceilings),
    ):
        if bound is not None and not held:
            others = [other for other, one in offered().items() if getattr(one.can, f"{name}s")]
            yield f"{strategy.name} cannot hold a {name}, {' and '.join(others)} can."


def _given(declared: Mapping[Any, Any]) -> dict[str, Any]:
    """The options of projections, by their names in small letters."""
    return {option.key: _value(declared, option) for option in _projected()}


def _access_problems(name: str, declared: object) -> Iterator[SettingProblem]:
    """The problems of who may reach the counters over HTTP."""
    where = f"COUNTERS[{name!r}]"
    for message in access_problems(declared):
        yield SettingProblem("E026", f"{where}: {message}")
    if declared is not None and name == DEFAULT:
        problem = "API is for declared namespaces: others cannot be reached."
        yield SettingProblem("E026", f"{where}: {problem}")
    if declared is not None and name in (CREATED, AUDITED, UPKEEP):
        problem = "API cannot be there: it would let others change what the app keeps for itself."
        yield SettingProblem("E026", f"{where}: {problem}")


def _strategy_problems(
    where: str, strategy: Declaration, declared: Mapping[Any, Any]
) -> Iterator[SettingProblem]:
    """The problems of the options of a strategy, and the limits of that strategy."""
    if not isinstance(declared.get("OPTIONS", {}), Mapping):
        yield SettingProblem("E008", f"{where}['OPTIONS'] must be a dictionary.")
        return
    yield from _foreign_options(where, strategy, declared)
    for option in strategy.namespaces or ():
        for message in option.problems(_value(declared, option)):
            yield SettingProblem("E019" if option.name.isupper() else "E008", f"{where}: {message}")
    bounds = _bounds(declared)
    for message in unheld(strategy, bounds, strategies):
        yield SettingProblem("E009", f"{where}: {message}")
    given = _given(declared)
    for code, message in conflicts(strategy, bounds, {**declared.get("OPTIONS", {}), **given}):
        yield SettingProblem(code, f"{where}: {message}")


def _foreign_options(
    where: str, strategy: Declaration, declared: Mapping[Any, Any]
) -> Iterator[SettingProblem]:
    """Options that a strategy does not have."""
    name, own = strategy.name, tuple(option.name for option in strategy.namespaces or ())
    small = tuple(option for option in own if not option.isupper())
    for option in declared.get("OPTIONS", {}):
        if option not in small:
            guess = did_you_mean(option, small)
            yield SettingProblem("E008", f"{where}: {name} has no option {option!r}.{guess}")
    if declared.keys() <= {option.name for option in namespace_options([strategy])}:
        return
    for option, owner in owners().items():
        if option in declared and option not in own:
            yield SettingProblem(
                "E019", f"{where}: {option} is for {owner} counters, not for {name}."
            )


def other_strategy(word: object, known: Mapping[str, Declaration]) -> str:
    """A half sentence that leads from what is no strategy there to one that is."""
    for one in declarations():
        if str(word).lower() in one.guesses:
            return f" {one.guesses[str(word).lower()]}"
    return did_you_mean(word, tuple(known))


def bounds_problems(floor: object, ceiling: object) -> Iterator[str]:
    """Yield what is wrong with a declared floor and ceiling."""
    numbers: dict[str, int] = {}
    for name, bound in (("floor", floor), ("ceiling", ceiling)):
        if bound is not None:
            try:
                numbers[name] = check_integer(bound)
            except errors.InvalidDelta as error:
                yield f"{bound!r} cannot be a {name}: {error.reason}."
    if len(numbers) == 2 and numbers["floor"] > numbers["ceiling"]:
        yield f"the floor {floor} is above the ceiling {ceiling}."
