"""How many counters strangers can make, and what asking costs."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_counters.access import CREATED, Access
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.rest.base import admit
from django_counters.testing import assert_counts, override_counters
from tests.concurrency.crowd import Threads, in_turns
from tests.rest.conftest import API_TESTS, NAMED, NAMESPACES, OPEN, As, Client, problem

pytestmark = API_TESTS
NO_ROOM = "There is no room for more counters of this namespace."
ONE = Access(max_counters=1)


def capped(most: int, namespace: str = "likes") -> override_counters:
    api = {**OPEN, "max_counters": most}
    return override_counters(**{namespace: {**NAMESPACES[namespace], "API": api}})


def made(namespace: str = "likes") -> set[str]:
    found = Counter.objects.filter(key__startswith=f"{namespace}:")
    return set(found.values_list("key", flat=True))


def full(answer: Any) -> dict[str, Any]:
    return problem(answer, 409, "namespace-full")


def forget() -> None:
    """As another process: nothing is known."""
    registry.admitted("default").clear()


@pytest.mark.parametrize("strategy", NAMED)
def test_the_first_are_made_and_no_more(strategy: str, as_: As) -> None:
    namespace, user = NAMED[strategy].partition(":")[0], as_("user")
    # Each namespace has room of its own.
    with capped(3, namespace), capped(1, "stock"):
        for number in range(6):
            answer = user.do("increment", f"{namespace}:{number}")
            if number < 3:
                assert answer.status_code == 200
            else:
                assert full(answer)["detail"] == NO_ROOM
            forget()
        assert user.do("increment", "stock:a").status_code == 200
        # Those that there are can be counted for ever.
        for number in range(3):
            assert user.do("increment", f"{namespace}:{number}").status_code == 200
        read = user.bulk("read", {"keys": [f"{namespace}:{n}" for n in range(6)]}).json()
    assert [each["value"] for each in read["counters"]] == [2, 2, 2, 0, 0, 0]
    assert made(namespace) == {f"{namespace}:{n}" for n in range(3)}
    assert_counts({f"{CREATED}:{namespace}": 3})


@pytest.mark.parametrize("action", ["decrement", "adjust"])
def test_it_holds_for_each_change(action: str, as_: As) -> None:
    body = {"to": 5, "reason": "counted by hand"} if action == "adjust" else None
    with capped(1):
        assert as_("superuser").do(action, "likes:a", body).status_code == 200
        full(as_("superuser").do(action, "likes:b", body))
    assert made() == {"likes:a"}


def test_a_bulk_for_which_there_is_no_room_counts_nothing(as_: As) -> None:
    items = {"counters": [{"key": f"likes:{n}"} for n in range(5)]}
    with capped(3):
        assert full(as_("user").bulk("increment", items))["limit"] == 3
        assert_counts({f"likes:{n}": 0 for n in range(5)})
        assert not made()


def test_a_new_counter_that_is_not_counted_after_all_costs_no_row_of_another(as_: As) -> None:
    with pytest.raises(KeyError), transaction.atomic():
        assert admit(["likes:a"], ONE) is None
        raise KeyError
    forget()
    assert not Counter.objects.exists()
    assert admit(["likes:b"], ONE) is None


@pytest.mark.parametrize("kind", ["exact", "ledger", "sharded"])
def test_asking_costs_nothing_the_second_time(kind: str) -> None:
    client = _without_login()
    assert client.do("increment", NAMED[kind]).status_code == 200
    with CaptureQueriesContext(connection) as alone:
        Counter.objects.increment(NAMED[kind])
    with CaptureQueriesContext(connection) as queries:
        assert client.do("increment", NAMED[kind]).status_code == 200
    assert len(_without_savepoints(queries)) == len(_without_savepoints(alone)) >= 1


@pytest.mark.django_db(transaction=True)
def test_a_cached_counter_needs_no_statement_at_all() -> None:
    client = _without_login()
    assert client.do("increment", "views:a").status_code == 200
    with CaptureQueriesContext(connection) as queries:
        assert client.do("increment", "views:a").json()["value"] == 2
        assert client.at("views:a").json()["value"] == 2
    # A read may ask for the total, which it then remembers.
    assert len(queries) <= 1
    with CaptureQueriesContext(connection) as queries:
        assert client.do("increment", "views:a").json()["value"] == 3
    assert len(queries) == 0


def test_a_refused_name_is_asked_for_again() -> None:
    client = _without_login()
    with capped(1):
        client.do("increment", "likes:a")
        full(client.do("increment", "likes:b"))
        Counter.objects.increment("likes:b")
        assert client.do("increment", "likes:b").json()["value"] == 2


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
def test_fifty_names_at_once_fill_the_room_of_ten_exactly() -> None:
    user = User.objects.create_user("ann")

    def work(number: int) -> int:
        found: Any = _of(user).do("increment", f"likes:{number}")
        return int(found.status_code)

    with capped(10):
        answers = in_turns(work, 50)
    assert sorted(answers) == [200] * 10 + [409] * 40
    assert len(made()) == 10
    assert_counts({f"{CREATED}:likes": 10})
    assert len(registry.admitted("default")) == 10
    assert sum(Counter.objects.values_of(made()).values()) == 10


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
def test_one_new_name_of_many_takes_room_once() -> None:
    user = User.objects.create_user("ann")
    with capped(2):
        answers = Threads(20).run(lambda _: _of(user).do("increment", "likes:a").status_code)
    assert answers == [200] * 20
    assert_counts({f"{CREATED}:likes": 1, "likes:a": 20})


def _without_login() -> Client:
    """A user whose authentication needs no statement."""
    return _of(User.objects.create_user("somebody"))


def _of(user: User) -> Client:
    client = Client()
    client.force_authenticate(user)
    return client


def _without_savepoints(queries: CaptureQueriesContext) -> list[str]:
    found = [query["sql"] for query in queries]
    return [sql for sql in found if "SAVEPOINT" not in sql]
