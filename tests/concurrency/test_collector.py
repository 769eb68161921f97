"""Collectors of many processes, threads and tasks, and collectors whose connection is lost."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_counters.errors import CounterUnavailable, InsufficientCount, OutcomeUnknown
from django_counters.models import Counter
from django_counters.testing import assert_counts
from tests.concurrency.servers import backend, end
from tests.stores.test_failures import closed_database, dies_at_commit  # noqa: F401
from tests.write.test_collector import Oops, caught, count

pytestmark = [pytest.mark.rare, pytest.mark.django_db(transaction=True)]
Elsewhere = Callable[[Callable[[], Any]], Any]


def kill(elsewhere: Elsewhere) -> None:
    """End the server's side of the present connection; it is over when this returns."""
    pid = backend()
    elsewhere(lambda: end(pid))


@pytest.mark.many_writers
class TestCrowds:
    def test_a_thread_that_inherits_the_context_counts_at_once_too(
        self, elsewhere: Elsewhere
    ) -> None:
        """As threads do that asynchronous code starts, and all threads of some Pythons."""
        with Counter.objects.collect():
            count("a")
            context = contextvars.copy_context()
            assert elsewhere(lambda: context.run(Counter.objects.increment, "a")) == 1
            assert_counts({"a": 2})
        assert_counts({"a": 2})


@pytest.mark.many_writers
class TestLostConnections:
    @pytest.fixture(autouse=True)
    def _clean(self) -> Iterator[None]:
        yield
        connection.close()

    def test_lost_in_a_block(self, elsewhere: Elsewhere) -> None:
        with pytest.raises(CounterUnavailable), Counter.objects.collect():
            count("a", "b")
            kill(elsewhere)
        assert Counter.objects.increment("a") == 1
        assert_counts({"a": 1, "b": 0})

    @pytest.mark.postgresql
    @pytest.mark.usefixtures("dies_at_commit")
    def test_lost_within_commit(self) -> None:
        """The block brought the transaction, so that it alone can say what became of it."""
        with pytest.raises(OutcomeUnknown), Counter.objects.collect():
            count("a")
        connection.close()
        assert_counts({"a": 0})


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def limited() -> Any:
        return await asyncio.wait_for(work(), 60)

    return async_to_sync(limited)()


async def outlived(fails: bool, ends: Callable[[], Awaitable[None]]) -> None:
    """A task whose own block, which counts two, goes on when the one around it is over."""
    entered, over = asyncio.Event(), asyncio.Event()

    async def late() -> None:
        async with Counter.objects.acollect():
            await Counter.objects.aincrement("a", 2)
            entered.set()
            await over.wait()
            await ends()

    with caught() if fails else nullcontext():
        async with Counter.objects.acollect():
            await Counter.objects.aincrement("a")
            task = asyncio.create_task(late())
            await entered.wait()
            if fails:
                raise Oops
    assert await Counter.objects.avalue("a") == int(not fails)
    over.set()
    await task


class TestTasks:
    def test_merged_and_applied_after_the_block(self) -> None:
        async def work() -> None:
            async with Counter.objects.acollect():
                await Counter.objects.aincrement("b")
                await Counter.objects.aincrement_many({"b": 2, "a": 1})
                async with Counter.objects.acollect():
                    await Counter.objects.adecrement("a", 3)
                assert await Counter.objects.avalues_of(["a", "b"]) == {"a": -2, "b": 3}
                assert not await Counter.objects.filter(key="a").aexists()

        with CaptureQueriesContext(connection) as captured:
            run(work)
        # Where one text is of several statements, it takes a transaction.
        begins = ("BEGIN", "COMMIT") if connection.vendor == "mysql" else ()
        around = ("SELECT 1", *begins)
        writes = [query for query in captured if not query["sql"].startswith(around)]
        assert len(writes) == 2, "one read, one write"
        assert_counts({"a": -2, "b": 3})

    @pytest.mark.parametrize("shared", [False, True], ids=["alone", "in an outer block"])
    @pytest.mark.parametrize("first_fails", [True, False])
    def test_blocks_of_two_tasks_do_not_mix(self, shared: bool, first_fails: bool) -> None:
        """Both are open at once; one fails while the other one goes on."""

        async def fails(opened: asyncio.Barrier, done: asyncio.Event) -> None:
            with caught():
                async with Counter.objects.acollect():
                    await Counter.objects.aincrement("fails")
                    await opened.wait()
                    await Counter.objects.aincrement("fails")
                    raise Oops
            done.set()

        async def stays(opened: asyncio.Barrier, done: asyncio.Event) -> None:
            async with Counter.objects.acollect():
                await Counter.objects.aincrement("stays")
                await opened.wait()
                await Counter.objects.aincrement("stays")
                await done.wait()
                await Counter.objects.aincrement("stays")

        async def both() -> None:
            opened, done = asyncio.Barrier(2), asyncio.Event()
            works = (fails, stays) if first_fails else (stays, fails)
            await asyncio.gather(*(work(opened, done) for work in works))

        async def work() -> None:
            if not shared:
                return await both()
            async with Counter.objects.acollect():
                await Counter.objects.aincrement("outer")
                await both()
                await Counter.objects.aincrement("outer")
            return None

        run(work)
        assert_counts({"stays": 3, "fails": 0, "outer": 2 * shared})

    @pytest.mark.parametrize("fails", [False, True])
    def test_a_block_that_ends_after_the_one_around_it_counts(self, fails: bool) -> None:
        """What the other one has collected is owed no more: it is counted, or never will be."""
        before = int(not fails)

        async def ends() -> None:
            assert await Counter.objects.avalue("a") == 2 + before
            assert await Counter.objects.aincrement("a", 10, ceiling=100) == 12 + before
            await Counter.objects.aincrement("a", 4)

        run(lambda: outlived(fails, ends))
        assert_counts({"a": 16 + before})

    def test_a_cancelled_block_counts_nothing(self) -> None:
        async def work() -> None:
            entered = asyncio.Event()

            async def waits() -> None:
                async with Counter.objects.acollect():
                    await Counter.objects.aincrement("a")
                    entered.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(waits())
            await entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await Counter.objects.aincrement("a") == 1

        run(work)

    def test_threads_of_one_block_lose_nothing(self) -> None:
        """Threads of tasks share the collector of their block."""
        times, crowd = 4000, 6

        def many() -> None:
            for _ in range(times):
                Counter.objects.increment("a")

        async def work() -> None:
            async with Counter.objects.acollect():
                await asyncio.gather(*(asyncio.to_thread(many) for _ in range(crowd)))

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            run(work)
        finally:
            sys.setswitchinterval(interval)
        assert_counts({"a": crowd * times})

    def test_a_block_of_sync_code_within(self) -> None:
        def sync_work() -> None:
            before = Counter.objects.filter(key="a").values_list("value", flat=True)
            with Counter.objects.collect():
                seen = list(before)
                count("a", "a")
                assert list(before.all()) == seen

        async def work() -> None:
            await asyncio.gather(*(sync_to_async(sync_work)() for _ in range(4)))
            assert await Counter.objects.aincrement("a") == 9

        run(work)

    def test_a_block_of_sync_code_is_refused_in_a_loop(self) -> None:
        async def work() -> None:
            with Counter.objects.collect():
                raise AssertionError("a transaction was opened in an event loop")

        with pytest.raises(SynchronousOnlyOperation):
            run(work)
        assert Counter.objects.increment("a") == 1

    def test_tasks_of_a_sync_block_join_its_transaction(self) -> None:
        async def work() -> None:
            async with Counter.objects.acollect():
                await Counter.objects.aincrement("a")
            await Counter.objects.aincrement("b")

        with Counter.objects.collect():
            with caught(), transaction.atomic():
                run(work)
                raise Oops
            run(work)
        assert_counts({"a": 1, "b": 1})

    def test_a_transaction_of_sync_code_within_takes_its_own(self) -> None:
        def sync_work() -> None:
            with transaction.atomic():
                count("a")
                transaction.set_rollback(True)

        async def work() -> None:
            async with Counter.objects.acollect():
                await Counter.objects.aincrement("b")
                await sync_to_async(sync_work)()

        run(work)
        assert_counts({"a": 0, "b": 1})

    def test_a_transaction_of_sync_code_does_not_see_what_is_collected_around_it(self) -> None:
        def sync_work() -> None:
            with transaction.atomic(), pytest.raises(InsufficientCount):
                Counter.objects.decrement("a", 2, floor=0)

        async def work() -> None:
            async with Counter.objects.acollect():
                await Counter.objects.aincrement("a", 5)
                await sync_to_async(sync_work)()

        run(work)
        assert_counts({"a": 5})
