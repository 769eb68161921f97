"""Decimal fields: amounts outside, units inside, and nothing rounded in between."""

from __future__ import annotations

import copy
import json
import operator
import pickle
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core import serializers
from django.core.exceptions import FieldError, ValidationError
from django.db import connection, models, transaction
from django.db.models import Avg, ExpressionWrapper, F, Max, StdDev, Sum, Value, Variance
from django.db.models.functions import Cast
from django.forms import modelform_factory
from django.template import Context, Template
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from django_counters import AssignmentIgnored, DecimalCounterField
from django_counters.contrib import holds, series
from django_counters.contrib.holds.errors import UnsupportedHold
from django_counters.decimals import (
    AmountNotLoaded,
    AmountOf,
    CounterAmount,
    amount_of,
    units_of,
)
from django_counters.errors import (
    ApprovalRequired,
    CeilingExceeded,
    InitialOutOfBounds,
    InsufficientCount,
    InvalidDelta,
    ValueChanged,
    ValueNotKnown,
)
from django_counters.types import INT8
from django_counters.upkeep import rollup
from tests.fields.test_schema import check_ids
from tests.testapp.models import Account

pytestmark = pytest.mark.django_db
D = Decimal
NO_AMOUNTS: list[Any] = [0.1, D("0.001"), D("NaN"), D("Infinity"), "1", True, None]
NUMBERS: list[Any] = ["12.555", "12.50", D("12.499"), 0.05, 0.051, 5, "-0.001", D("-3"), True]
NUMBERS += [D("1e30"), "-1e30", 10**40, "1e999999999", "-1e999999999", "1e-999999999"]
NUMBERS += ["92233720368547758.07", "92233720368547758.08", "-92233720368547758.085"]
LONG = "12.50" + "0" * 60 + "1"
COMPARISONS: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "exact": operator.eq,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
NO_AMOUNTS += [2**62, D("1e30"), D("1e-999999999"), D("1e999999999"), D("0." + "1" * 60)]


def account(**given: Any) -> Any:
    return Account.objects.create(**given)


def column(name: str, record: Any) -> int:
    """What the database has."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {name} FROM testapp_account WHERE id = %s", [record.pk])
        return int(cursor.fetchone()[0])


class TestUnits:
    @given(st.integers(*INT8), st.integers(1, 18), st.integers(1, 60))
    def test_there_and_back(self, units: int, places: int, precision: int) -> None:
        """Whatever the context of the caller rounds."""
        with localcontext() as context:
            context.prec = precision
            amount = amount_of(units, places)
            assert units_of(amount, places) == units
        assert amount.as_tuple().exponent == -places
        with localcontext() as context:
            context.prec = 60
            assert amount * 10**places == units

    @given(st.integers(1, 18), st.decimals(allow_nan=False, allow_infinity=False))
    def test_an_amount_is_kept_as_it_is_or_refused(self, places: int, amount: Decimal) -> None:
        with localcontext() as context:
            context.prec = 500
            scaled = amount.scaleb(places) if abs(amount.adjusted()) < 400 else amount
            fits = INT8[0] <= scaled <= INT8[1] and not scaled % 1
        if fits:
            assert amount_of(units_of(amount, places), places) == amount
        else:
            with pytest.raises(InvalidDelta):
                units_of(amount, places)

    @given(st.lists(st.decimals("-99", "99", places=2).filter(bool), min_size=1, max_size=5))
    def test_sums_are_those_of_decimals(self, amounts: list[Decimal]) -> None:
        counted = account()
        for amount in amounts:
            assert counted.bonus.increment(amount).value == counted.bonus
        assert counted.bonus == counted.bonus.value() == sum(amounts)
        assert Account.objects.get(pk=counted.pk).bonus == sum(amounts)
        assert column("bonus", counted) == sum(int(amount * 100) for amount in amounts)


class TestCounting:
    def test_amounts(self) -> None:
        counted = account(balance=D("12.5"))
        assert (str(counted.balance), column("balance", counted)) == ("12.50", 1250)
        result = counted.balance.increment(D("0.10"))
        assert (result, result.value, result.replayed) == (D("12.60"), D("12.60"), False)
        assert type(result.value) is Decimal
        assert counted.balance.increment(3) == D("15.60") == counted.balance
        assert counted.balance.increment() == D("16.60")
        assert counted.balance.decrement(D("6.60")) == 10
        reading = counted.balance.read()
        assert (reading.value, reading.total, reading.pending) == (D("10.00"), D("10.00"), 0)
        assert str(counted.balance.value()) == "10.00"
        assert f"{counted.balance + D('0.005'):.3f}" == "10.005"
        assert Account.balance.of(counted.pk).increment(D("0.05")) == D("10.05")
        with pytest.raises(ValueNotKnown):
            assert Account.balance.of(counted.pk) > 0

    def test_a_token_counts_once(self) -> None:
        counted = account()
        assert not counted.balance.increment(D("1.50"), token="t-1").replayed
        again = counted.balance.increment(D("1.50"), token="t-1")
        assert (again.value, again.replayed, column("balance", counted)) == (D("1.50"), True, 150)

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.usefixtures("cached")
    @pytest.mark.parametrize(
        ("name", "amount", "units"),
        [("points", "1.505", 1505), ("energy", "1.5005", 15005), ("bonus", "1.05", 105)],
    )
    def test_each_way_to_count(self, name: str, amount: str, units: int) -> None:
        async def twins() -> None:
            await getattr(record, name).aincrement(D(amount))
            await getattr(record, name).adecrement(1)
            assert await getattr(record, name).avalue() == 2 * D(amount) - 1

        record = account()
        places = getattr(Account, name).field.places
        assert getattr(record, name).increment(D(amount)) == D(amount)
        async_to_sync(twins)()
        assert getattr(record, name).increment(1) == 2 * D(amount) == getattr(record, name)
        exact = Account.objects.with_counts(name)
        assert getattr(exact.get(), name) == 2 * D(amount)
        assert getattr(record, name).read().value == 2 * D(amount)
        if name == "points":
            assert exact.filter(points__gte=2 * D(amount)).count() == 1
            assert not exact.filter(points__gt=2 * D(amount)).exists()
            rollup()
            assert column(name, record) == 2 * units
        row = getattr(record, name).adjust(
            to=1, expected=2 * D(amount), reason="r", actor="ann", approver="bob"
        )
        # What is written down is in units.
        assert (row.before, row.after) == (2 * units, units_of(1, places))
        assert getattr(record, name) == getattr(record, name).value() == 1
        assert getattr(record, name).reset(reason="r", actor="ann").after == 0
        assert getattr(record, name) == 0

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.usefixtures("cached")
    def test_what_is_not_known_yet(self) -> None:
        record = account()
        with transaction.atomic():
            assert record.energy.increment(D("1.5")).value is None
            assert record.energy == 0
        assert record.energy.value() == D("1.5")

    def test_periods_hold_units(self) -> None:
        counted = account()
        counted.bonus.increment(D("1.05"))
        assert series.of(counted.bonus).per("day").last(1).total() == 105

    @pytest.mark.parametrize("amount", NO_AMOUNTS)
    def test_what_would_be_rounded_is_refused(self, amount: Any) -> None:
        counted = account(balance=1)
        for call in (
            lambda: counted.balance.increment(amount),
            lambda: counted.balance.decrement(amount),
            lambda: counted.balance.increment(1, ceiling=amount or 0.5),
            lambda: counted.balance.adjust(to=amount or 0.5, reason="r", actor="ann"),
            lambda: Account.objects.increment(balance=amount),
            lambda: Account.objects.adjust_many(
                "balance", to={counted.pk: amount}, reason="r", actor="ann", case="c"
            ),
        ):
            with pytest.raises(InvalidDelta):
                call()
        assert column("balance", counted) == 100

    def test_errors_tell_amounts(self) -> None:
        counted = account(balance=D("9.99"))
        with pytest.raises(InsufficientCount) as short:
            counted.balance.decrement(10)
        error: Any = short.value
        assert (error.available, error.requested, error.floor) == (D("9.99"), 10, 0)
        assert "has 9.99 to give above its floor 0.00, 10.00 were requested" in str(error)
        with pytest.raises(InsufficientCount) as short:
            counted.balance.decrement(5, floor=D("5.00"))
        error = short.value
        assert (error.available, error.floor) == (D("4.99"), 5)
        with pytest.raises(CeilingExceeded) as full:
            Account.objects.increment(bonus=D("0.01"), balance=D("990.02"))
        error = full.value
        assert error.shortfalls[0][1:] == (D("990.02"), D("990.01"), 1000)
        assert (error.ceiling, column("bonus", counted)) == (1000, 0)
        with pytest.raises(ValueChanged) as changed:
            counted.balance.adjust(to=1, expected=D("1.00"), reason="r", actor="ann")
        error = changed.value
        assert (error.current, error.expected) == (D("9.99"), 1)
        with pytest.raises(ApprovalRequired) as alone:
            counted.bonus.adjust(to=D("5.01"), reason="r", actor="ann")
        error = alone.value
        assert (error.delta, error.limit) == (D("5.01"), 5)
        with pytest.raises(InitialOutOfBounds) as start:
            account(balance=D("-0.01"))
        error = start.value
        assert (error.value, error.floor) == (D("-0.01"), 0)

    def test_many_records(self) -> None:
        first, second = account(balance=1), account(balance=2)
        assert Account.objects.increment(balance=D("0.25"), points=D("0.125")) == 2
        assert Account.objects.filter(balance=D("1.25")).decrement(balance=1) == 1
        assert [column("balance", one) for one in (first, second)] == [25, 225]
        report = Account.objects.adjust_many(
            "balance", to={first.pk: D("7.50"), second.pk: 8}, reason="r", actor="ann", case="c"
        )
        assert [change.after for change in report.changes] == [750, 800]

    def test_a_maximum(self) -> None:
        one = account(balance=D("5.25"))
        for number, value in ((D("7.50"), "7.50"), (6, "7.50"), (8, "8.00")):
            assert one.balance.maximum(number) == D(value)
        assert (one.balance, column("balance", one)) == (D("8.00"), 800)
        with pytest.raises(CeilingExceeded) as caught:
            one.balance.maximum(D("1000.01"))
        assert caught.value.ceiling == D("1000.00")

    def test_nothing_is_held(self) -> None:
        counted = account(balance=5)
        with pytest.raises(UnsupportedHold):
            holds.hold(counted.balance, 1)
        assert column("balance", counted) == 500


@pytest.mark.parametrize("kind", [CounterAmount, AmountNotLoaded, AmountOf])
def test_templates_change_no_amount(kind: type) -> None:
    """An override has no attributes of the method that it overrides."""
    declared = ((name, it) for base in kind.__mro__ for name, it in vars(base).items())
    changing = {name for name, it in declared if hasattr(it, "alters_data")}
    assert changing >= {"increment", "adecrement", "maximum", "adjust", "reset"}
    assert all(getattr(kind, name).alters_data for name in changing)


def test_a_template_shows_an_amount_and_leaves_it() -> None:
    record = account(balance=D("12.50"))
    text = "[{{ row.balance }}{{ row.balance.increment }}{{ row.balance.decrement }}]"
    assert Template(text).render(Context({"row": record})) == "[12.50]"
    assert column("balance", record) == 1250


class TestInstances:
    @override_settings(DEBUG=True)
    @pytest.mark.filterwarnings("error")
    def test_copies_are_decimals_and_save_writes_nothing(self) -> None:
        counted = account(balance=D("2.50"), limit=1)
        ways: list[Any] = [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
        for kept in ways:
            assert type(kept(counted.balance)) is Decimal
            assert kept(counted).balance == D("2.50")
        Account.objects.increment(balance=1)
        counted.limit = counted.balance
        counted.full_clean()
        counted.save()
        counted.refresh_from_db()
        assert (counted.balance, counted.limit) == (D("3.50"), D("2.50"))
        counted.save()
        counted.balance = Account.balance.of(counted.pk).increment(D("0.25"))
        counted.save()
        with connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) WHERE 4 > %s", [counted.balance])
        counted.balance.decrement(D("0.25"))
        counted.balance = 9
        with pytest.warns(AssignmentIgnored) as told:
            counted.save()
        assert told[0].filename == __file__
        counted.refresh_from_db()
        other = Account(name="copy", balance=counted.balance)
        other.save()
        assert (column("balance", other), other.balance) == (350, D("3.50"))
        Account.objects.bulk_update([other], ["balance", "name"])
        new = Account(**{"balance": D("0.05")})
        assert column("balance", Account.objects.bulk_create([new])[0]) == 5

    def test_deferred(self) -> None:
        counted = account(balance=D("2.50"))
        assert Account.objects.only("name").get(pk=counted.pk).balance == D("2.50")

    @pytest.mark.parametrize("amount", [0.1, D("0.001"), "one", D("NaN"), True])
    def test_no_amount_at_the_beginning(self, amount: Any) -> None:
        with pytest.raises(InvalidDelta):
            Account(balance=amount)
        with pytest.raises(ValidationError):
            Account._meta.get_field("balance").clean(amount, Account())

    def test_validators_speak_of_amounts(self) -> None:
        field = Account._meta.get_field("balance")
        assert field.clean("1000.00", Account()) == 1000
        for wrong in ("1000.01", "-0.01", "0.001"):
            with pytest.raises(ValidationError):
                field.clean(wrong, Account())

    def test_a_fixture(self) -> None:
        account(balance=D("2.50"), points=D("0.001"))
        for kind in ("json", "python", "xml"):
            text = serializers.serialize(kind, Account.objects.all())
            Account.objects.all().delete()
            for loaded in serializers.deserialize(kind, text):
                loaded.save()
            assert Account.objects.get().balance == D("2.50")
            Account.objects.increment(balance=1)
            for loaded in serializers.deserialize(kind, text):
                loaded.save()
            assert Account.objects.get().balance == D("3.50")
            Account.objects.decrement(balance=1)
        fields = json.loads(serializers.serialize("json", Account.objects.all()))[0]["fields"]
        assert (fields["balance"], fields["points"]) == ("2.50", "0.001")

    @override_settings(DEBUG=True)
    @pytest.mark.filterwarnings("error")
    def test_a_form_shows_it(self) -> None:
        form_class: Any = modelform_factory(Account, fields=["name", "balance"])
        counted = account(balance=D("2.50"))
        form = form_class({"name": "n", "balance": "99"}, instance=counted)
        Account.objects.increment(balance=1)
        counted.refresh_from_db()
        assert 'value="2.50"' in str(form["balance"])
        assert form.is_valid(), form.errors
        # Django 6 reads the number of the row as it saves, and 5.2 leaves what the form showed.
        assert form.save().balance in (D("2.50"), D("3.50"))
        assert column("balance", counted) == 350


class TestQueries:
    @pytest.fixture(autouse=True)
    def _accounts(self) -> None:
        for name, balance in (("a", "5.00"), ("b", "12.50"), ("c", "0.05")):
            account(name=name, balance=D(balance), bonus=D("1.01"), limit=D("7.00"))

    @pytest.mark.parametrize(
        ("asked", "names"),
        [
            ({"balance__gte": D("5")}, "ab"),
            ({"balance": 5}, "a"),
            ({"balance": "12.50"}, "b"),
            ({"balance__in": [D("0.05"), 5]}, "ac"),
            ({"balance__range": (D("0.05"), D("5.00"))}, "ac"),
            ({"balance__lt": F("bonus")}, "c"),
            ({"balance__gt": F("balance") - F("bonus") * 2}, "abc"),
        ],
    )
    def test_filters(self, asked: dict[str, Any], names: str) -> None:
        found = Account.objects.filter(**asked).order_by("name")
        assert "".join(found.values_list("name", flat=True)) == names

    @pytest.mark.parametrize("number", NUMBERS)
    def test_a_filter_compares_any_number(self, number: Any) -> None:
        balances = {"a": D("5.00"), "b": D("12.50"), "c": D("0.05")}
        same = D(1) if number is True else D(str(number))
        field = Account._meta.get_field("balance")
        left = ExpressionWrapper(F("balance") - Value(D(0), field), output_field=field)
        for name, compare in COMPARISONS.items():
            wanted = sorted(one for one, balance in balances.items() if compare(balance, same))
            others = sorted({*balances} - {*wanted})
            for asked in ({f"balance__{name}": number}, {f"left__{name}": number}):
                rows = Account.objects.annotate(left=left).order_by("name")
                assert [one.name for one in rows.filter(**asked)] == wanted, asked
                assert [one.name for one in rows.exclude(**asked)] == others, asked
            having = Account.objects.values("name").annotate(
                sum=Sum("balance"), mean=Avg("balance")
            )
            for asked in ({f"sum__{name}": number}, {f"mean__{name}": number}):
                assert sorted(one["name"] for one in having.filter(**asked)) == wanted, asked

    @pytest.mark.parametrize(
        ("asked", "names"),
        [
            ({"balance__in": [D("0.055"), "12.5", 10**30, None]}, "b"),
            ({"balance__in": {D("0.055"), D("1e30")}}, ""),
            ({"balance__in": [F("bonus"), D("12.505"), 5]}, "a"),
            ({"balance__gte": LONG}, ""),
            ({"balance__lt": LONG}, "abc"),
            ({"balance": LONG}, ""),
            ({"balance__range": ("0.045", "5.001")}, "ac"),
            ({"balance__range": ("0.051", "0.059")}, ""),
            ({"balance__range": (D("-1e30"), "5.001")}, "ac"),
            ({"balance__range": ("0.051", "1e30")}, "ab"),
            ({"balance__range": ("1e30", "1e31")}, ""),
            ({"balance__range": (D("-1e31"), D("-1e30"))}, ""),
            ({"balance__range": ("0.051", F("balance"))}, "ab"),
        ],
    )
    def test_a_filter_by_many_numbers(self, asked: dict[str, Any], names: str) -> None:
        rows = Account.objects.order_by("name")
        assert "".join(one.name for one in rows.filter(**asked)) == names
        others = "".join(sorted({*"abc"} - {*names}))
        assert "".join(one.name for one in rows.exclude(**asked)) == others

    @pytest.mark.parametrize("wrong", ["x", "", D("NaN"), float("inf"), "1e9" + "9" * 30, [1], {}])
    def test_a_filter_by_no_number(self, wrong: Any) -> None:
        """As Django's own DecimalField refuses it."""
        for name in ("exact", "gt", "in", "range"):
            given = [wrong, wrong] if name in ("in", "range") else wrong
            for field in ("balance", "plain"):
                plain = Cast("limit", models.DecimalField(max_digits=9, decimal_places=2))
                with pytest.raises(ValidationError, match="must be a decimal number"):
                    Account.objects.annotate(plain=plain).filter(**{f"{field}__{name}": given})

    def test_squares_are_compared_with_squares(self) -> None:
        record = account(name="a", balance=D("7.00"))
        assert record.balance == 7
        spread = Account.objects.values("name").annotate(square=Variance("balance"))
        assert spread.filter(square__gt=D("0.999")).get()["square"] == 1
        assert not spread.filter(square__gt=1).exists()
        assert spread.get(square=1)["name"] == "a"

    def test_values_and_order(self) -> None:
        rows = Account.objects.order_by("-balance").values_list("balance", flat=True)
        assert [str(one) for one in rows] == ["12.50", "5.00", "0.05"]
        shown = Account.objects.annotate(left=F("balance") - F("bonus"), twice=2 * F("balance"))
        found = shown.values("left", "twice").get(name="b")
        assert {k: str(v) for k, v in found.items()} == {"left": "11.49", "twice": "25.00"}
        assert [
            one.balance
            for one in Account.objects.raw("SELECT * FROM testapp_account WHERE name = 'b'")
        ] == [D("12.50")]

    def test_aggregates(self) -> None:
        found = Account.objects.aggregate(
            sum=Sum("balance"), max=Max("balance"), mean=Avg("balance"), of=Variance("bonus")
        )
        assert (str(found["sum"]), str(found["max"])) == ("17.55", "12.50")
        assert (found["mean"], found["of"]) == (D("5.85"), 0)
        spread = sum((D(one) - D("5.85")) ** 2 for one in ("5.00", "12.50", "0.05")) / 3
        found = Account.objects.aggregate(square=Variance("balance"), root=StdDev("balance"))
        assert found["square"] == pytest.approx(spread)
        assert found["root"] == pytest.approx(D(spread).sqrt())
        none = Account.objects.filter(name="x")
        assert none.aggregate(sum=Sum("balance"))["sum"] is None
        assert none.aggregate(sum=Sum("balance", default=D("1.50")))["sum"] == D("1.50")

    def test_what_mixes_kinds_is_refused(self) -> None:
        for wrong in (
            lambda: Account.objects.filter(balance__gt=F("limit")),
            lambda: Account.objects.filter(balance__gt=F("points")),
            lambda: Account.objects.filter(balance__in=[5, F("points")]),
            lambda: Account.objects.filter(balance__in=Account.objects.values("limit")),
            lambda: list(Account.objects.annotate(x=F("balance") + 1)),
            lambda: list(Account.objects.annotate(x=F("balance") + D("0.1"))),
            lambda: list(Account.objects.annotate(x=F("balance") + F("limit"))),
            lambda: list(Account.objects.annotate(x=F("balance") / 3)),
            lambda: Account.objects.update(balance=F("limit")),
            lambda: Account.objects.update(balance=F("points")),
        ):
            with pytest.raises(FieldError):
                wrong()

    @pytest.mark.parametrize(
        "lookup",
        [
            *("iexact", "contains", "icontains", "startswith", "istartswith"),
            *("endswith", "iendswith", "regex", "iregex"),
        ],
    )
    def test_no_lookup_finds_the_text_of_units(self, lookup: str) -> None:
        for wrong in (
            lambda: Account.objects.filter(**{f"balance__{lookup}": "125"}),
            lambda: Account.objects.filter(**{f"energy__{lookup}": "7"}),
            lambda: Account.objects.annotate(x=Sum("balance")).filter(**{f"x__{lookup}": "1"}),
        ):
            with pytest.raises(FieldError, match=f"Unsupported lookup '{lookup}'"):
                wrong()

    def test_update(self) -> None:
        record = Account.objects.get(name="a")
        Account.objects.filter(name="a").update(balance=D("7.25"))
        assert column("balance", record) == 725
        Account.objects.update(balance=F("balance") + F("bonus"))
        assert column("balance", record) == 826
        field = Account._meta.get_field("balance")
        more = ExpressionWrapper(F("balance") + Value(D("0.25"), field), output_field=field)
        Account.objects.update(balance=more)
        assert column("balance", record) == 851


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({"places": 2}, []),
        ({"places": 18, "floor": D("-9.2"), "default": D("0.5")}, []),
        ({"places": 2, "strategy": "cached"}, []),
        ({"places": 2, "db_default": D("1.50"), "floor": 1}, []),
        ({"places": 0}, ["counters.E038"]),
        ({"places": 19, "floor": D("0.5"), "default": 1}, ["counters.E038", "counters.E011"]),
        ({"places": "2"}, ["counters.E038"]),
        ({"places": True}, ["counters.E038"]),
        ({"places": 2, "once": True}, ["counters.E038"]),
        ({"places": 2, "ceiling": {"month": 5}}, ["counters.E038"]),
        ({"places": "two", "floor": "0"}, ["counters.E038", "counters.E011"]),
        ({"places": 2, "floor": 0.5, "ceiling": "9"}, ["counters.E011", "counters.E011"]),
        ({"places": 2, "ceiling": D("0.001")}, ["counters.E011"]),
        ({"places": 2, "default": D("0.001")}, ["counters.E015"]),
        ({"places": 2, "default": D("-0.01"), "floor": 0}, ["counters.E015"]),
        ({"places": 2, "approve_above": 0.5}, ["counters.E024"]),
    ],
)
def test_declarations_are_checked(options: dict[str, Any], ids: list[str]) -> None:
    assert check_ids(DecimalCounterField, **options) == ids


@pytest.mark.parametrize("assigned", [D("-5"), -5, "-5.00"])
def test_an_amount_that_is_assigned_to_a_copy_keeps_to_the_bounds(assigned: Any) -> None:
    account(balance=5)
    Account.objects.update(balance=D("-3"))
    loaded = Account.objects.get()
    loaded.pk, loaded._state.adding = None, True
    loaded.save()
    assert column("balance", loaded) == -300
    loaded.balance = assigned
    loaded.pk, loaded._state.adding = None, True
    with pytest.raises(InitialOutOfBounds), transaction.atomic():
        loaded.save()


def test_what_migrations_keep() -> None:
    declared: dict[str, Any] = {"places": 2, "floor": 0, "ceiling": D("9.99"), "default": D("0.5")}
    name, path, args, options = DecimalCounterField(**declared, strategy="slotted").deconstruct()
    assert (path, options) == (
        "django_counters.decimals.DecimalCounterField",
        {**declared, "strategy": "slotted"},
    )
    again = DecimalCounterField(*args, **options)
    assert again.deconstruct() == (name, path, args, options)
    assert (again.bounds, "places" in again.non_db_attrs) == ((0, 999), True)
    for state in (Account._meta.get_field("balance"), copy.deepcopy(again)):
        assert isinstance(state, models.BigIntegerField)
        assert state.db_type(connection) == models.BigIntegerField().db_type(connection)
