"""One request with an Idempotency-Key counts once, however often it is sent."""

from __future__ import annotations

import pytest

from django_counters.models import Counter
from django_counters.rest import expose
from django_counters.testing import override_counters
from tests.rest.asking import (
    CASES,
    SEVERAL_CACHED,
    Case,
    assert_first,
    assert_replayed,
    bulk,
    case_of,
    counted,
    header,
    send,
    through,
    times,
)
from tests.rest.conftest import API, API_TESTS, NAMED, OPEN, As, Client, problem
from tests.testapp.models import Ticket

pytestmark = API_TESTS


@pytest.mark.parametrize("case", CASES, indirect=True)
class TestEveryChange:
    def test_the_same_again_is_answered_the_same(self, client: Client, case: Case) -> None:
        first = send(client, case)
        assert_first(first)
        for _ in range(2):
            assert_replayed(send(client, case), first)
        assert counted(client, case) == case.counts

    def test_another_body_is_refused(self, client: Client, case: Case) -> None:
        first = send(client, case)
        problem(send(client, case, body=case.other), 422, "idempotency-key-reused")
        assert_replayed(send(client, case), first)
        assert counted(client, case) == case.counts

    def test_another_key_and_another_person_count_again(
        self, client: Client, case: Case, as_: As
    ) -> None:
        for who, key in ((client, "one"), (client, "two"), (as_("superuser"), "one")):
            assert_first(send(who, case, key))
        assert counted(client, case) == times(case, 3)


class TestAnother:
    @pytest.mark.parametrize("kind", ["exact", "cached"])
    def test_path_counts_again(self, client: Client, kind: str) -> None:
        key = NAMED[kind]
        for path in (f"{key}/increment", f"{key}2/increment", f"{key}/decrement"):
            answer = client.post(f"{API}/counters/{path}", {"by": 2}, **header("one"))
            assert_first(answer)
        assert [client.at(one, "exact").json()["value"] for one in (key, f"{key}2")] == [0, 2]

    def test_spelling_of_the_same_body_is_the_same(self, client: Client) -> None:
        path = f"{API}/counters/likes:a/increment"
        first = client.post(path, {}, **header("one"))
        assert_first(first)
        assert_replayed(client.post(path, {"by": 1}, **header("one")), first)

    def test_order_of_a_bulk_is_the_same(self, client: Client) -> None:
        items = [{"key": f"likes:{name}"} for name in "ab"]
        path = f"{API}/bulk/increment"
        first = client.post(path, {"counters": items}, **header("one"))
        assert_replayed(client.post(path, {"counters": items[::-1]}, **header("one")), first)


class TestAfterAnError:
    """What says "not counted" may be tried again with the same key, at once."""

    @pytest.mark.parametrize("action", ["decrement", "bulk"])
    def test_of_a_bound(self, client: Client, action: str) -> None:
        case = case_of("decrement", {"exact": "stock:a"})
        name, room = "insufficient-count", ("increment", {"by": 3})
        if action == "bulk":
            Counter.objects.increment("stock:a", 98)
            case, name, room = bulk("stock:a"), "ceiling-exceeded", ("decrement", {"by": 3})
        for _ in range(2):
            problem(send(client, case), 409, name)
        client.do(room[0], "stock:a", room[1])
        assert_first(send(client, case))

    @pytest.mark.parametrize("what", ["cached", SEVERAL_CACHED, "scans"])
    def test_of_a_server_that_is_away(self, client: Client, cached: str, what: str) -> None:
        expose(Ticket, "scans", **OPEN)
        scans = f"testapp.Ticket.scans:{Ticket.objects.create().pk}"
        views = {"STRATEGY": "cached", "ON_REDIS_DOWN": "raise", "API": OPEN}
        case = case_of(what, {"cached": "views:a", "scans": scans})
        with override_counters(views=views):
            with through("redis://127.0.0.1:1/0", cached):
                for _ in range(2):
                    problem(send(client, case), 503, "unavailable")
            patience = {**views, "OPTIONS": {"timeout": 10}}
            with override_counters(views=patience):
                assert_first(send(client, case))
                assert counted(client, case) == case.counts
