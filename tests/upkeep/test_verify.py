"""Whether values are the sums of their entries, and tokens that nobody may use any more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from django_counters import clock
from django_counters.errors import TokenExpired
from django_counters.features import Drift
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterHorizon,
    CounterIncident,
    CounterShard,
    CounterToken,
)
from django_counters.signals import incident_recorded
from django_counters.testing import assert_counts
from django_counters.tokens import Token, mint
from django_counters.upkeep import prune, verify
from tests.settling import roll_up

pytestmark = pytest.mark.django_db


def append(*keys: str, by: int = 5) -> None:
    CounterDelta.objects.append_many([(key, by) for key in keys])


def set_by_hand(key: str, value: int) -> None:
    assert Counter.objects.filter(key=key).update(value=value) == 1


@pytest.fixture
def heard() -> Iterator[list[Any]]:
    """What is told to those who listen for incidents."""
    told: list[Any] = []

    def listen(sender: Any, incident: Any, using: str, **_: Any) -> None:
        told.append((sender, incident, using))

    incident_recorded.connect(listen)
    yield told
    incident_recorded.disconnect(listen)


class TestVerify:
    def test_all_is_well(self) -> None:
        Counter.objects.increment("a", 100)
        append("a", "b", "a")
        CounterShard.objects.increment("a", 1000)
        Counter.objects.increment("exact")
        report = verify()
        assert (report.checked, report.drifts) == (2, [])
        assert not CounterIncident.objects.exists()

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("value", [14, 999])
    def test_a_total_that_was_changed_by_hand_is_found_and_left_alone(self, value: int) -> None:
        Counter.objects.increment("a", 10)
        append("a", "b")
        roll_up()
        set_by_hand("a", value)
        report = verify()
        assert report.drifts == [Drift("a", expected=5, actual=value - 10)]
        assert_counts({"a": value})

    @pytest.mark.django_db(transaction=True)
    def test_a_total_that_is_gone(self) -> None:
        append("a")
        roll_up()
        Counter.objects.all().delete()
        assert verify().drifts == [Drift("a", expected=5, actual=0)]

    @pytest.mark.django_db(transaction=True)
    def test_an_entry_that_is_gone(self) -> None:
        append("a", "a", "b")
        roll_up()
        CounterDelta.objects.filter(pk=CounterDelta.objects.filter(key="a")[0].pk)._raw_delete(
            "default"
        )
        assert verify().drifts == [Drift("a", expected=5, actual=10)]


class TestIncidents:
    def test_a_difference_becomes_one(
        self, heard: list[Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        append("a")
        set_by_hand("a", 3)
        with caplog.at_level(logging.ERROR, logger="django_counters"):
            verify()
        (incident,) = CounterIncident.objects.all()
        assert (incident.kind, incident.subject) == ("drift", "a")
        assert incident.detail == {"expected": 0, "actual": 3}
        assert incident.found_at <= clock.now()
        assert str(incident) == "drift: a"
        assert heard == [(CounterIncident, incident, "default")]
        assert "drift a" in caplog.text

    def test_another_difference_is_another_one(self, heard: list[Any]) -> None:
        append("a", "b")
        for value in (3, 4, 3):
            set_by_hand("a", value)
            verify()
        set_by_hand("b", 3)
        verify()
        subjects = CounterIncident.objects.order_by("pk").values_list("subject", flat=True)
        assert list(subjects) == ["a", "a", "a", "b"]
        assert len(heard) == 4


class TestNarrowed:
    @pytest.fixture(autouse=True)
    def _wrong(self) -> None:
        append("a:1", "a:2", "ab:1", "b:1", "a", "A:1", "a%:1", "größe:Ω")
        for key in ("a:1", "ab:1", "A:1", "a%:1", "größe:Ω"):
            set_by_hand(key, 3)

    def test_to_a_namespace(self) -> None:
        every = ["A:1", "a%:1", "a:1", "ab:1", "größe:Ω"]
        expected: dict[str | None, tuple[int, list[str]]] = {
            **{"a": (2, ["a:1"]), "ab": (1, ["ab:1"]), "b": (1, []), "A": (1, ["A:1"])},
            **{"a%": (1, ["a%:1"]), "größe": (1, ["größe:Ω"]), "c": (0, []), None: (8, every)},
        }
        for namespace, (checked, wrong) in expected.items():
            report = verify(namespace=namespace)
            assert [drift.key for drift in report.drifts] == wrong
            assert report.checked == checked

    def test_to_a_sample(self) -> None:
        for sample, checked in ((0, 0), (1, 1), (5, 5), (8, 8), (100, 8)):
            report = verify(sample=sample)
            assert report.checked == checked
            # Three of the eight are as they should be.
            assert max(0, checked - 3) <= len(report.drifts) <= min(checked, 5)


class TestPrune:
    """Tokens are kept for as long as anybody may use them, and two hours more."""

    def use(self, *texts: str, ago: timedelta = timedelta(), using: str = "default") -> None:
        for text in texts:
            token = Token(text)
            Counter.objects.increment(f"n:{text}", token=token, using=using)
            CounterToken.objects.using(using).filter(digest=token.digest).update(
                created_at=clock.now() - ago
            )

    def test_only_those_out_of_the_window_are_forgotten(self) -> None:
        self.use("new")
        self.use("young", ago=timedelta(hours=49, minutes=59))
        self.use("old", ago=timedelta(hours=50, minutes=1))
        self.use("ancient", ago=timedelta(days=365))
        assert prune() == 2
        kept = {bytes(digest) for (digest,) in CounterToken.objects.values_list("digest")}
        assert kept == {Token("new").digest, Token("young").digest}
        assert prune() == 0

    def test_a_text_that_is_forgotten_counts_again(self) -> None:
        self.use("a", "b", ago=timedelta(days=3))
        self.use("b")
        prune()
        for text, value in (("a", 2), ("b", 1)):
            Counter.objects.increment(f"n:{text}", token=text)
            assert_counts({f"n:{text}": value})

    def test_a_uuid_that_is_forgotten_is_out_of_its_window(self) -> None:
        """It can never count again."""
        token = mint(clock.utc() - timedelta(hours=47))
        Counter.objects.increment("a", token=token)
        window = {"token_window": timedelta(hours=10)}
        CounterHorizon.objects.update_or_create(pk=1, defaults=window)
        CounterToken.objects.update(created_at=clock.now() - timedelta(hours=13))
        assert prune() == 1
        with pytest.raises(TokenExpired):
            Counter.objects.increment("a", token=token)
        assert_counts({"a": 1})

    def test_there_may_be_thousands(self) -> None:
        CounterToken.objects.bulk_create(
            CounterToken(
                digest=Token(str(number)).digest,
                fingerprint=b"",
                created_at=clock.now() - timedelta(days=3),
            )
            for number in range(2_500)
        )
        self.use("new")
        assert prune() == 2_500
        assert CounterToken.objects.count() == 1

    @pytest.mark.many_writers
    @pytest.mark.django_db(transaction=True)
    def test_one_that_somebody_holds_is_left(
        self, elsewhere: Callable[[Callable[[], Any]], Any]
    ) -> None:
        self.use("held", "old", ago=timedelta(days=3))
        with transaction.atomic():
            CounterToken.objects.select_for_update().get(digest=Token("held").digest)
            assert elsewhere(prune) == 1
        assert prune() == 1
