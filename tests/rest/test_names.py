"""Which counters strangers may create, at what price, and who hears of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import override_settings

from django_counters.access import CREATED
from django_counters.checks import check_setting
from django_counters.metrics import samples
from django_counters.metrics.doctor import examine
from django_counters.metrics.samples import samples_of, scraping
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.rest.base import admit
from django_counters.testing import assert_counts, override_counters
from tests.concurrency.crowd import Threads
from tests.rest.conftest import OPEN, ORIGIN, As, Client, problem

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("tests.rest.urls"),
    pytest.mark.usefixtures("namespaces"),
]
IPV6 = "2001:db8:0:{:x}::1"


def declared(**api: Any) -> override_counters:
    return override_counters(likes={"API": {**OPEN, **api}})


def is_even(name: str) -> bool:
    return int(name) % 2 == 0


@pytest.mark.parametrize("rule", [r"[02468]", re.compile("2|4"), is_even])
def test_only_names_that_are_declared_come_into_being(rule: Any, as_: As) -> None:
    Counter.objects.increment("likes:7")
    user = as_("user")
    with declared(names=rule):
        assert user.do("increment", "likes:2").status_code == 200
        # What the project has made is counted, whatever its name.
        assert user.do("increment", "likes:7").status_code == 200
        for key in ("likes:3", "likes:1"):
            assert problem(user.do("increment", key), 404)["detail"] == "There is no such counter."
        problem(user.bulk("increment", {"counters": [{"key": "likes:4"}, {"key": "likes:5"}]}), 404)
    assert_counts({"likes:2": 1, "likes:7": 2, f"{CREATED}:likes": 1})
    assert not Counter.objects.filter(key__in=["likes:3", "likes:4", "likes:5"])


@pytest.mark.parametrize(
    ("api", "message"),
    [
        ({"names": "("}, "names is a regular expression or a function of the name, not '('"),
        ({"names": 5}, "not 5"),
        ({"names": re.compile(b"a")}, "not one of bytes"),
        ({"network_limits": "600/min"}, "network_limits is a dictionary"),
        ({"network_limits": {64: "1/s"}}, "a network has 16 to 63 bits, not 64"),
        ({"network_limits": {"48": "1/s"}}, "not '48'"),
        ({"network_limits": {48: "often"}}, "network_limits: "),
        ({"limit": "5/min", "burst": 5}, "an integer from 1 to 4, not 5"),
        ({"limit": "5/min", "burst": 0}, "an integer from 1 to 4, not 0"),
        ({"burst": 5}, "a burst is that of a 'limit'"),
    ],
)
def test_what_is_wrong_is_a_check_error(api: dict[str, Any], message: str) -> None:
    with override_settings(COUNTERS={"likes": {"API": api}}):
        (error,) = check_setting()
    assert error.id == "counters.E026"
    assert message in error.msg


def test_a_namespace_that_is_full_is_told(as_: As, caplog: pytest.LogCaptureFixture) -> None:
    user = as_("user")
    with declared(max_counters=2):
        for number, told in enumerate(([], ["likes"], ["likes"])):
            user.do("increment", f"likes:{number}")
            full = [one.subject for one in examine() if one.needed and "full" in one.action]
            assert full == told
        *_, scrape = scraping("default")
        values = {(s.metric, *s.labels[1:]): s.value for s in samples_of(scrape)}
    assert values[samples.CREATED, "likes"] == values[samples.MOST_CREATED, "likes"] == 2
    assert values[samples.UP, "rooms"] == 1
    # When it becomes full, and not whenever somebody is refused.
    (line,) = [line for line in caplog.messages if "is full" in line]
    assert "'likes'" in line


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
def test_bulks_at_once_make_no_more_than_there_is_room_for() -> None:
    """Names overlap, the project makes some of them, and nobody waits for ever."""
    user = User.objects.create_user("ann")

    def work(number: int) -> int:
        if number % 4 == 3:
            Counter.objects.increment_many({f"likes:{n}": 1 for n in range(0, 60, 3)})
            return 200
        client = Client()
        client.force_authenticate(user)
        first = number * 5
        items = [{"key": f"likes:{n}"} for n in range(first, first + 20)]
        return int(client.bulk("increment", {"counters": items}).status_code)

    with declared(max_counters=40):
        assert set(Threads(12).run(work)) == {200, 409}
    by_http = Counter.objects.value(f"{CREATED}:likes")
    rows = Counter.objects.filter(key__startswith="likes:").count()
    # The project made 20 by itself, unless somebody was earlier.
    assert rows - 20 <= by_http <= min(rows, 40)


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
def test_what_the_project_makes_meanwhile_takes_no_room() -> None:
    def work(number: int) -> object:
        if number % 2:
            return Counter.objects.increment("likes:a")
        return admit(["likes:a"], registry.policy("likes:a").access)

    for _ in range(20):
        Counter.objects.all().delete()
        registry.admitted("default").clear()
        Threads(2).run(work)
        assert Counter.objects.value("likes:a") == 1
        assert Counter.objects.value(f"{CREATED}:likes") in (0, 1)


def test_a_network_has_a_limit_of_its_own(as_: As) -> None:
    api = {"increment": "beacon", "origins": [ORIGIN], "limit": "2/day"}
    networks = {48: "5/day", 56: "3/day"}
    visitor = as_("anonymous")

    def statuses(host: int, times: int, key: str = "likes:a") -> list[int]:
        sender = {"HTTP_ORIGIN": ORIGIN, "REMOTE_ADDR": IPV6.format(host)}
        return [visitor.do("increment", key, **sender).status_code for _ in range(times)]

    with declared(**api, network_limits=networks):
        assert statuses(0x001, 3) == [200, 200, 429]
        # One more of the same /56, then those of the /48: who was refused has taken nothing.
        assert statuses(0x002, 2) == [200, 429]
        assert statuses(0x101, 3) == [200, 200, 429]
        assert statuses(0x201, 1) == [429]
        for address in ("198.51.100.7", "2001:db8:1::1"):
            sender = {"HTTP_ORIGIN": ORIGIN, "REMOTE_ADDR": address}
            assert visitor.do("increment", "likes:a", **sender).status_code == 200
        assert as_("user").do("increment", "likes:a", REMOTE_ADDR=IPV6.format(1)).status_code == 200


def test_a_bulk_that_is_never_within_the_limit_is_wrong(as_: As) -> None:
    items = {"counters": [{"key": f"likes:{n}"} for n in range(3)]}
    for api in ({"limit": "2/day"}, {"limit": "3/day", "burst": 2}):
        with declared(**api):
            (error,) = problem(as_("user").bulk("increment", items), 400, "invalid")["errors"]
        assert error["field"] == "counters"
        assert "at most 2 counters of likes" in error["detail"]
