"""The site under load: prepare, serve, watch, stop, check."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from argparse import Namespace
from contextlib import ExitStack
from typing import NamedTuple

from django.core.management import call_command
from django.db import DatabaseError, connections
from django.urls import reverse

from django_counters.contrib.holds.upkeep import prune_holds
from django_counters.models import CounterBatch
from example_project import sales, seeds, verify
from example_project.blog.models import Post
from example_project.bootstrap.commands import BEGAN
from example_project.browser import Site
from example_project.chaos import REDIS, Chaos, accidents, need_own_redis, starting
from example_project.corrections import noting
from example_project.crew import BEAT, FLUSHER, WORKER, Crew, working
from example_project.flow import Meter, grouped
from example_project.race import Race, racing
from example_project.report import Report
from example_project.restock import restocking
from example_project.screen import LiveLine, say, written
from example_project.server import HOST, serving
from example_project.settling import settle
from example_project.shop.models import Product
from example_project.stopping import Stop
from example_project.tally import Tally, Watched, together
from example_project.traffic import Plan, load
from example_project.urls import count_for
from example_project.verify import Snapshot
from example_project.wsgi import application

CHECK_SECONDS = 20.0


def main(options: Namespace) -> int:
    """Run the site, print the report, and return 0 if every counter is exact, else 1.

    Raises:
        NothingToKill: there is to be chaos, in a Redis that is not ours.
    """
    stop = Stop()
    if options.chaos:
        need_own_redis()
    with stop.listening():
        prepare(fresh=options.fresh)
        report = run(options, stop)
    print(json.dumps(report.as_json(), indent=2) if options.json else written(report), flush=True)
    return 0 if report.ok else 1


def prepare(*, fresh: bool) -> None:
    """Bring the database up to date and fill in what is missing.

    Raises:
        NotOurs: ``fresh``, in a database that the example did not set up.
    """
    if fresh:
        seeds.refuse_foreign_database()
    say("Bringing the database up to date.")
    call_command("migrate", verbosity=0, interactive=False)
    # What a run has left that was killed.
    for problem in settle():
        say(f"from an earlier run: {problem}")
    # What is sold is compared by what the holds say: none of them is to be forgotten meanwhile.
    prune_holds()
    if fresh:
        say(f"--fresh: {seeds.clear_site()}")
    seeds.sow()
    seeds.correct()
    if seeds.runs_on_our_own_server():
        seeds.add_demo_users()


class Start(NamedTuple):
    """What there was before: the report is about what came after."""

    counts: Snapshot
    incident: int
    generations: int

    @classmethod
    def now(cls) -> Start:
        """What there is at this moment."""
        return cls(verify.snapshot(), verify.last_incident(), CounterBatch.objects.count())


class Work(NamedTuple):
    """Everything that is at work while everybody counts."""

    name: str
    ready: float
    meter: Meter
    race: Race
    crew: Crew
    chaos: Chaos
    sent: Tally
    visitors: Tally


def run(options: Namespace, stop: Stop) -> Report:
    """Serve and send until it is time to stop, then compare."""
    start, began = Start.now(), time.monotonic()
    with ExitStack() as stack:
        work = _begin(options, stack, f"load-{secrets.token_hex(4)}")
        _watch(options, stop, work)
    seconds = time.monotonic() - began
    connections.close_all()  # what is compared is read afresh
    return _report(start, work, seconds)


def _begin(options: Namespace, stack: ExitStack, name: str) -> Work:
    sent, visitors = Tally(), Tally()
    meter = Meter(lambda: together(sent, visitors))
    race = stack.enter_context(racing(Race(lambda: together(sent, visitors))))
    stack.enter_context(noting(visitors))
    stack.enter_context(starting())
    port = stack.enter_context(serving(Watched(application, visitors), options.port))
    count_for(f"http://{HOST}:{port}", f"http://localhost:{port}")
    ready = time.time() - float(os.environ.get(BEGAN, time.time()))
    _welcome(options, port, ready)
    names = (WORKER, BEAT, FLUSHER) if options.chaos else (WORKER, BEAT)
    crew = stack.enter_context(working(visitors, *names))
    if not options.no_load:
        plan = _plan(Site(HOST, port, name))
        stack.enter_context(restocking(plan.sale, visitors))
        stack.enter_context(load(plan, sent))
    chaos = stack.enter_context(accidents(crew, by_itself=options.chaos))
    return Work(name, ready, meter, race, crew, chaos, sent, visitors)


def _plan(site: Site) -> Plan:
    return Plan(
        site=site,
        posts=list(Post.objects.values_list("pk", flat=True)),
        pages=["/shop/", "/blog/", "/live/"],
        sale=Product.objects.get(slug=seeds.SALE).pk,
    )


def _welcome(options: Namespace, port: int, ready: float) -> None:
    base = f"http://{HOST}:{port}"
    if options.check and options.json:
        return
    say(f"{base}/ can be opened now, {ready:.1f} s after the start.")
    if options.check:
        return
    say(f"{base}/live/ shows all counts moving.")
    say(f"{base}{reverse('admin:django_counters_overview')} is their overview in the admin.")
    say(f"{base}{reverse('api-docs')} is the API that the pages count with.")
    if seeds.runs_on_our_own_server():
        say("There clerk adjusts counters, boss approves it, and demo is a superuser;")
        say("the password of each is the name.")
    say("Below: how far the views and visits have come. Ctrl-C stops the load and checks all.")


def _watch(options: Namespace, stop: Stop, work: Work) -> None:
    seconds = options.seconds or (CHECK_SECONDS if options.check else float("inf"))
    ends = time.monotonic() + seconds
    line = LiveLine(sys.stderr)
    last, asked = time.monotonic(), 0
    while not stop.asked and time.monotonic() < ends:
        work.crew.look()
        work.chaos.step()
        if line.is_due() and not options.check:
            now, requests = time.monotonic(), work.sent.sums()["requests"]
            line.show(_shown(work, (requests - asked) / max(now - last, 0.001)))
            last, asked = now, requests
        time.sleep(min(0.1, max(0.0, ends - time.monotonic())))
    line.end()


def _shown(work: Work, rate: float) -> str:
    """The line; a database that does not answer is a failure, and the run goes on to its report."""
    try:
        flow = work.meter.read()
    except DatabaseError as error:
        connections.close_all()
        work.visitors.fail(f"the live line: {error}".strip())
        return "the database does not answer"
    failures = work.sent.sums()["failures"] + work.visitors.sums()["failures"]
    failed = f" · FAILED {grouped(failures)}" if failures else ""
    killed = sum(work.chaos.kills.values())
    kills = f" · killed {killed}" if killed else ""
    return f"{flow} · {grouped(rate)} requests/s{kills}{failed}"


def _report(start: Start, work: Work, seconds: float) -> Report:
    generations = CounterBatch.objects.count() - start.generations
    found = _settled(start, work)
    sent, visitors, after = work.sent.sums(), work.visitors.sums(), verify.snapshot()
    expected = together(work.sent, work.visitors)
    return Report(
        seconds=seconds,
        ready=work.ready,
        requests=sent["requests"],
        refused=sent["refused"],
        failed=sent["failures"] + visitors["failures"],
        failures=[*work.sent.failures(), *work.visitors.failures()],
        counts=verify.counts(start.counts, after, expected),
        by_country=verify.by_country(start.counts, after, expected),
        by_week=verify.by_week(start.counts, after, expected),
        visitors=verify.visitors(start.counts, after, sent, visitors),
        by_person=verify.by_person(start.counts, after, expected),
        sales=sales.sales(start.counts, after, expected, work.name),
        baskets=sales.baskets(start.counts, after, sent),
        flow=work.meter.read(),
        race=work.race.read(),
        folded=visitors["folded"],
        entries=visitors["entries"],
        sent_again=sent["sent_again"],
        liked_again=sent["liked_again"],
        taken_back=sent["taken_back"],
        turned_away=sent["turned_away"],
        drifts=verify.drifts(),
        generations=generations,
        kills=work.chaos.kills,
        incidents=found,
    )


def _settled(start: Start, work: Work) -> list[str]:
    """Let everything land, and return the incidents of this run; what should not be, fails it."""
    for problem in settle():
        work.visitors.fail(problem)
    found = verify.incidents(start.incident)
    for incident in verify.unexpected(found, chaos=bool(work.chaos.kills[REDIS])):
        work.visitors.fail(f"an incident: {incident}")
    return found
