"""Requests with an Idempotency-Key that die, or meet each other: each counts once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import pytest
from django.db import connection, connections

from django_counters.cached.flush import flush
from django_counters.errors import CounterUnavailable, OutcomeUnknown
from django_counters.models import CounterToken
from django_counters.rest import base, targets
from django_counters.stores.sql.claims import SqlTokens
from django_counters.stores.sql.dialects import dialect_of
from django_counters.testing import override_counters
from tests.concurrency.servers import connected, execute, hurry, waiting
from tests.redis.counting import eventually
from tests.redis.proxy import Fault, proxied
from tests.rest.asking import (
    BESIDE,
    WITHIN,
    WITHOUT_TOKEN,
    Case,
    assert_first,
    assert_replayed,
    case_of,
    counted,
    pass_lease,
    send,
    through,
    times,
)
from tests.rest.conftest import API_TESTS, NAMED, OPEN, Client, problem
from tests.settling import roll_up

pytestmark = [*API_TESTS, pytest.mark.rare]
PATIENCE = 30
Dying = Callable[..., Any]


class Death(BaseException):
    """The end of a process: nothing that comes after this is done."""


def before_it_is_kept(patch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    original = base.IdempotentRequest.do

    def do(self: Any, work: Dying) -> Any:
        def then(token: Any) -> Any:
            body = work(token)
            happens()
            return body

        return original(self, then)

    patch.setattr(base.IdempotentRequest, "do", do)


def before_it_is_counted(patch: pytest.MonkeyPatch, happens: Callable[[], Any]) -> None:
    original = base.IdempotentRequest.do
    patch.setattr(
        base.IdempotentRequest, "do", lambda self, work: original(self, lambda _: happens())
    )


class TestBesideTheTransaction:
    """The claim is committed, then Redis counts, then the answer is kept."""

    @pytest.mark.parametrize("case", ["cached"], indirect=True)
    @pytest.mark.parametrize("dies", [before_it_is_counted, before_it_is_kept])
    def test_with_a_token_it_is_resumed(
        self, client: Client, case: Case, dies: Dying, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.die(client, case, dies, monkeypatch)
        pass_lease()
        first = send(client, case)
        assert_first(first)
        assert first.json()["value"] == 3
        assert_replayed(send(client, case), first)
        assert counted(client, case) == case.counts

    @pytest.mark.parametrize("case", WITHOUT_TOKEN, indirect=True)
    @pytest.mark.parametrize("dies", [before_it_is_counted, before_it_is_kept])
    def test_without_a_token_nobody_knows(
        self, client: Client, case: Case, dies: Dying, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.die(client, case, dies, monkeypatch)
        pass_lease()
        for _ in range(2):
            problem(send(client, case), 504, "outcome-unknown")
        assert counted(client, case) == times(case, dies is before_it_is_kept)

    def die(self, client: Client, case: Case, dies: Dying, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever asks again has to wait until the lease is over."""
        with monkeypatch.context() as patch, pytest.raises(Death):
            dies(patch, die)
            send(client, case)
        answer = send(client, case)
        problem(answer, 409, "in-progress")
        assert answer["Retry-After"] == "1"

    @pytest.mark.parametrize("case", BESIDE, indirect=True)
    @pytest.mark.parametrize("fault", ["close", "half"])
    def test_an_answer_of_redis_is_lost(
        self, client: Client, case: Case, cached: str, fault: Fault
    ) -> None:
        views = {"STRATEGY": "cached", "ON_REDIS_DOWN": "raise", "API": OPEN}
        patience = {**views, "OPTIONS": {"timeout": 10}}
        with override_counters(views=patience), proxied() as proxy:
            with through(proxy.url, cached):
                # The connection, and what Redis does not know yet.
                send(client, case, "other")
                proxy.lose(fault)
                problem(send(client, case), 504, "outcome-unknown")
            self.settle(client, case)

    def settle(self, client: Client, case: Case) -> None:
        """What has a token need not wait for the lease."""
        if "views" not in case.path:
            problem(send(client, case), 409, "in-progress")
            pass_lease()
        answer = send(client, case)
        if "views" in case.path:
            assert_first(answer)
        else:
            problem(answer, 504, "outcome-unknown")
        assert counted(client, case) == times(case, 2)

    @pytest.mark.parametrize("case", ["cached"], indirect=True)
    def test_one_who_comes_late_takes_no_answer_away(
        self, client: Client, case: Case, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The lease has passed, another has counted and answered, then it finds Redis away."""
        answers: list[Any] = []
        change = targets.NamedTarget.change

        def late(self: Any, *_: Any) -> Any:
            monkeypatch.undo()
            pass_lease()
            answers.append(send(client, case))
            raise CounterUnavailable(using="redis", reason="it is late")

        monkeypatch.setattr(targets.NamedTarget, "change", late)
        problem(send(client, case), 503, "unavailable")
        assert targets.NamedTarget.change is change
        assert_first(answers[0])
        assert_replayed(send(client, case), answers[0])
        assert counted(client, case) == case.counts

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("first_away", [True, False])
    def test_what_went_into_the_ledger_meanwhile(
        self, client: Client, cached: str, first_away: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Redis and the ledger are asked with the same token, one after the other."""
        case = case_of("cached", NAMED)
        with away(cached, first_away):
            self.die(client, case, before_it_is_kept, monkeypatch)
        pass_lease()
        with away(cached, not first_away):
            answer = send(client, case)
        assert_first(answer)
        assert_replayed(send(client, case), answer)
        assert eventually(partial(is_settled, client, case), PATIENCE), counted(client, case)

    @pytest.mark.parametrize("lost", [False, True])
    def test_a_counter_that_has_become_exact_meanwhile(
        self, client: Client, monkeypatch: pytest.MonkeyPatch, lost: bool
    ) -> None:
        """Also where its outcome was not known: the lease is given back, what it did is not."""
        case = case_of("cached", NAMED)
        if lost:
            with monkeypatch.context() as patch:
                patch.setattr(targets.NamedTarget, "change", lose_the_answer)
                problem(send(client, case), 504, "outcome-unknown")
        else:
            self.die(client, case, before_it_is_kept, monkeypatch)
        with override_counters(views={"API": OPEN}):
            problem(send(client, case), 504, "outcome-unknown")
            assert CounterToken._base_manager.count() == 1


def lose_the_answer(self: Any, *_: Any) -> Any:
    raise OutcomeUnknown(using="redis")


def away(prefix: str, is_away: bool) -> AbstractContextManager[Any]:
    return through("redis://127.0.0.1:1/0", prefix) if is_away else nullcontext()


def is_settled(client: Client, case: Case) -> bool:
    """Whether all that waits is in the totals, and is what was asked for."""
    flush()
    roll_up()
    return counted(client, case) == case.counts


@pytest.mark.parametrize("case", WITHIN, indirect=True)
def test_the_answer_is_kept_where_it_is_counted_or_neither(
    client: Client, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Death):
        patch.setattr(SqlTokens, "keep", die)
        send(client, case)
    assert counted(client, case) == times(case, 0)
    assert_first(send(client, case))
    assert counted(client, case) == case.counts


def die(*_: object) -> None:
    raise Death


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
class TestSeveralAtOnce:
    @pytest.mark.parametrize(
        "case", ["exact", "exact field", "bulk exact", "decrement", "adjust"], indirect=True
    )
    def test_one_that_is_being_worked_on(self, client: Client, case: Case) -> None:
        """Somebody holds the row, so that the first request cannot end."""
        send(client, case, "before")
        with connected("apart"), ThreadPoolExecutor(1) as pool:
            hurry(2000)
            execute("BEGIN", using="apart")
            execute("UPDATE django_counters_counter SET value = value", using="apart")
            execute("UPDATE testapp_post SET number_of_likes = number_of_likes", using="apart")
            first = pool.submit(send, client_of(client), case)
            assert eventually(lambda: waiting() == 1, PATIENCE)
            answer = send(client, case)
            execute("ROLLBACK", using="apart")
            assert_first(first.result(PATIENCE))
            pool.submit(connections.close_all).result(PATIENCE)
        # Where no transaction can limit its time, it has waited for the first one, in vain.
        tells = dialect_of("default").limits_time
        problem(answer, *((409, "in-progress") if tells else (503, "unavailable")))
        assert answer["Retry-After"] == "1"
        assert_replayed(send(client, case), first.result())
        assert counted(client, case) == times(case, 2)


def client_of(client: Client) -> Client:
    """Another one of the same person."""
    twin = Client()
    twin.cookies = client.cookies
    return twin


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
class TestTheDatabaseGoes:
    """Redis has counted; then the answer cannot be kept."""

    @pytest.mark.parametrize("case", BESIDE, indirect=True)
    @pytest.mark.parametrize("how", ["ended", "stuck"])
    def test_before_the_answer_is_kept(
        self, client: Client, case: Case, how: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with connected("apart"):
            with monkeypatch.context() as patch:
                before_it_is_kept(patch, end if how == "ended" else stick)
                first = send(client, case)
            assert_first(first)
            execute("ROLLBACK", using="apart")
        connection.close()
        problem(send(client, case), 409, "in-progress")
        pass_lease()
        again = send(client, case)
        if "views" in case.path:
            assert again.json()["value"] == first.json()["value"]
        else:
            problem(again, 504, "outcome-unknown")
        assert counted(client, case) == case.counts


def end() -> None:
    """End the connection, as an administrator would."""
    ((number,),) = execute("SELECT pg_backend_pid()")
    with connected("executioner"):
        execute("SELECT pg_terminate_backend(%s, 5000)", number, using="executioner")


def stick() -> None:
    """Somebody holds the token, and nobody waits for long."""
    execute("SET lock_timeout = '100ms'")
    execute("BEGIN", using="apart")
    execute("UPDATE django_counters_countertoken SET result = result", using="apart")
