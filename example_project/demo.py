"""The site under load: prepare, serve, watch, stop, check."""

from __future__ import annotations

import json
import secrets
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from django.core.management import call_command
from django.db import DatabaseError, connections

from example_project import seeds, verify
from example_project.blog.models import Post
from example_project.browser import Site
from example_project.folding import rolling_up
from example_project.report import Report
from example_project.restock import restocking
from example_project.screen import LiveLine, grouped, say, written
from example_project.server import HOST, serving
from example_project.shop.models import Product
from example_project.tally import Tally, Watched
from example_project.traffic import Plan, load
from example_project.verify import Snapshot
from example_project.wsgi import application

CHECK_SECONDS = 20.0
SHOWN = ("views", "likes", "downloads", "orders")
ENDING = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Set by Ctrl-C and SIGTERM; a second one ends the process the usual way."""

    def __init__(self) -> None:
        # A plain flag: an Event has a lock, which a signal handler must not wait for.
        self.asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to the signals meanwhile."""
        before = {number: signal.getsignal(number) for number in ENDING}

        def ask(number: int, _: FrameType | None) -> None:
            self.asked = True
            signal.signal(number, before[signal.Signals(number)])

        for number in ENDING:
            signal.signal(number, ask)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def main(options: Namespace) -> int:
    """Run the site, print the report, and return 0 if every counter is exact, else 1."""
    stop = Stop()
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
    call_command("migrate", verbosity=0, interactive=False)
    if fresh:
        say(f"--fresh: {seeds.clear_site()}")
    seeds.sow()
    if seeds.runs_on_our_own_server():
        seeds.add_demo_user()


def run(options: Namespace, stop: Stop) -> Report:
    """Serve and send until it is time to stop, then compare."""
    sent, visitors = Tally(), Tally()
    name = f"load-{secrets.token_hex(4)}"
    before = verify.snapshot()
    began = time.monotonic()
    with ExitStack() as stack:
        port = stack.enter_context(serving(Watched(application, visitors), options.port))
        stack.enter_context(rolling_up(visitors))
        _welcome(options, port)
        if not options.no_load:
            plan = _plan(Site(HOST, port, name))
            stack.enter_context(restocking(plan.sale, visitors))
            stack.enter_context(load(plan, sent))
        _watch(options, stop, before, (sent, visitors))
    seconds = time.monotonic() - began
    connections.close_all()  # what is compared is read afresh
    return _report(before, verify.snapshot(), (sent, visitors), name, seconds)


def _plan(site: Site) -> Plan:
    return Plan(
        site=site,
        posts=[post.get_absolute_url() for post in Post.objects.all()],
        pages=["/shop/", "/blog/", "/live/"],
        sale=Product.objects.get(slug=seeds.SALE).pk,
    )


def _welcome(options: Namespace, port: int) -> None:
    if options.check:
        return
    base = f"http://{HOST}:{port}"
    login = ", as demo with the password demo" if seeds.runs_on_our_own_server() else ""
    say(f"{base}/live/ shows the counts moving; the admin is at {base}/admin/{login}")
    say("Below: counted/sent. Ctrl-C stops the load and checks every counter.")


def _watch(options: Namespace, stop: Stop, before: Snapshot, tallies: tuple[Tally, Tally]) -> None:
    seconds = options.seconds or (CHECK_SECONDS if options.check else float("inf"))
    ends = time.monotonic() + seconds
    line = LiveLine(sys.stderr)
    last, asked = time.monotonic(), 0
    while not stop.asked and time.monotonic() < ends:
        if line.is_due() and not options.check:
            now, requests = time.monotonic(), tallies[0].sums()["requests"]
            line.show(_shown(before, tallies, (requests - asked) / max(now - last, 0.001)))
            last, asked = now, requests
        time.sleep(min(0.1, max(0.0, ends - time.monotonic())))
    line.end()


def _shown(before: Snapshot, tallies: tuple[Tally, Tally], rate: float) -> str:
    """The line; a database that does not answer is a failure, and the run goes on to its report."""
    try:
        return _line(before, tallies, rate)
    except DatabaseError as error:
        connections.close_all()
        tallies[1].fail(f"the live line: {error}".strip())
        return "the database does not answer"


def _line(before: Snapshot, tallies: tuple[Tally, Tally], rate: float) -> str:
    sent = tallies[0].sums() + tallies[1].sums()
    sums = verify.summed(verify.counts(before, verify.snapshot(), sent))
    counted = " · ".join(
        f"{kind} {grouped(sums[kind]['counted'])}/{grouped(sums[kind]['sent'])}" for kind in SHOWN
    )
    sale = Product.objects.get(slug=seeds.SALE).pk
    offered = before.stock[sale] + sent[f"restocked:{sale}"]
    failed = f" · FAILED {grouped(sent['failures'])}" if sent["failures"] else ""
    return (
        f"{counted} · sold {grouped(sent[f'sold:{sale}'])}/{grouped(offered)} · "
        f"refused {grouped(sent['refused'])} · {grouped(rate)} requests/s{failed}"
    )


def _report(
    before: Snapshot, after: Snapshot, tallies: tuple[Tally, Tally], name: str, seconds: float
) -> Report:
    sent, visitors = tallies[0].sums(), tallies[1].sums()
    return Report(
        seconds=seconds,
        requests=sent["requests"],
        refused=sent["refused"],
        failed=sent["failures"] + visitors["failures"],
        failures=[*tallies[0].failures(), *tallies[1].failures()],
        counts=verify.counts(before, after, sent + visitors),
        sales=verify.sales(before, after, sent + visitors, name),
        folded=visitors["folded"],
        entries=visitors["entries"],
        sent_again=sent["sent_again"],
        drifts=verify.drifts(),
    )
