"""The command line of the example: the site under load, or ``replay``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

# Exported for a replay "with tokens" or "through a stream": see the settings.
WAY = "DJC_REPLAY_WAY"
TOKENS_WAY, REDIS_WAY, KAFKA_WAY = "tokens", "redis", "kafka"
STREAM_WAYS = (REDIS_WAY, KAFKA_WAY)
# Exported for a replay through Kafka: where its broker is.
BROKER = "DJC_REPLAY_BROKER"
TOPIC = "replay"
PROGRAM = "python3 -m example_project"
EPILOG = """
Uses the database of DATABASE_URL and the cache of REDIS_URL where they are exported; otherwise
its own, kept in .demo. An exported database is only migrated and added to; --fresh removes the
example's own rows from it, and refuses if the example did not make them.
"""

TOKENS = """
--tokens: a line is known by its place in the file and its text, whatever the file is called.
Blocks of lines are counted in a transaction each, together with their token, so a replay that
failed or was killed is just started again, with any number of processes, and ends exact. Of a
file that has grown only the new lines are counted; one that was cut is refused. Tokens are known
for 48 hours. Lines that were counted without --tokens, or before --fresh, are counted anew.

--stream: all lines are published to a stream first, of Redis or, with --stream kafka, of Kafka: the
mock broker of librdkafka, for as long as the replay lives. Then consumers count them, and one of
them is killed meanwhile. Each line counts once. It counts on the day that it was published.
"""


def main(argv: Sequence[str]) -> int:
    """Do what the arguments say.

    Returns:
        0 if every counter is what it should be; 1 if not, or if anything failed; 2 if the
        arguments, the file or the database cannot be used.
    """
    options = parser().parse_args(_with_backend(argv))
    way = getattr(options, "way", "")
    if way != KAFKA_WAY:
        return _done(options, way)
    from example_project.broker import with_topic

    with with_topic(TOPIC) as os.environ[BROKER]:
        return _done(options, way)


def _with_backend(argv: Sequence[str]) -> list[str]:
    """The arguments, in which the backend of --stream is named: what follows may be the file."""
    return [
        f"{word}={REDIS_WAY}" if word == "--stream" and after not in STREAM_WAYS else word
        for word, after in pairwise([*argv, ""])
    ]


def _done(options: argparse.Namespace, way: str) -> int:
    _configure(way)
    from django.db import OperationalError, connections

    from example_project import demo, replay
    from example_project.chaos import NothingToKill
    from example_project.once import OtherLines
    from example_project.screen import say
    from example_project.seeds import NotOurs
    from example_project.streamed import Stuck

    work = replay.main if options.command == "replay" else demo.main
    try:
        return work(options)
    except (NotOurs, NothingToKill, replay.Unreadable) as error:
        say(f"error: {error}")
        return 2
    except (OtherLines, Stuck, replay.Unsettled) as error:
        say(f"error: {error}")
        return 1
    except OperationalError as error:
        say(f"error: the database: {error}")
        return 1
    finally:
        connections.close_all()


def parser() -> argparse.ArgumentParser:
    """The arguments; needs no Django."""
    main = argparse.ArgumentParser(
        prog=PROGRAM,
        description="A shop and a blog under load, whose counters are checked at the end.",
        epilog=EPILOG,
    )
    add = main.add_argument
    add("--seconds", type=_seconds, metavar="N", help="stop after N seconds (else at Ctrl-C)")
    add("--check", action="store_true", help="for scripts: no live line; 20 s unless told")
    add("--json", action="store_true", help="print the result as JSON, and nothing else")
    add("--port", type=_port, default=8000, metavar="N", help="first port to try (8000)")
    add("--fresh", action="store_true", help="start from nothing")
    add("--chaos", action="store_true", help="kill Redis, the worker and a flusher while it counts")
    add("--no-load", action="store_true", help="only serve the pages")
    commands = main.add_subparsers(dest="command", metavar="replay")
    _add_replay(commands.add_parser("replay", help="count an access log; see replay --help"))
    return main


def _add_replay(replay: argparse.ArgumentParser) -> None:
    replay.description = (
        "Count the pages, statuses and hours of an access log, each line on its day, by many"
        " processes."
    )
    replay.epilog = TOKENS
    # Not given here means: as given before the word replay.
    unset = argparse.SUPPRESS
    add = replay.add_argument
    add("file", type=Path, metavar="FILE", help="an access log in the combined format")
    add("--workers", type=_workers, default=4, metavar="N", help="processes (4)")
    add("--json", action="store_true", default=unset, help="print the result as JSON")
    add("--fresh", action="store_true", default=unset, help="start these counters at zero")
    add("--verify", action="store_true", help="count again in plain Python and compare")
    way = replay.add_mutually_exclusive_group().add_argument
    once = "count each line once, however often it is replayed"
    way("--tokens", dest="way", action="store_const", const=TOKENS_WAY, default="", help=once)
    stream = "publish the lines to a stream, of Redis or Kafka, and kill one of its consumers"
    way("--stream", dest="way", choices=STREAM_WAYS, help=stream)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError("must be more than 0")
    return seconds


def _port(text: str) -> int:
    return _within(int(text), 0, 65535)


def _workers(text: str) -> int:
    return _within(int(text), 1, 64)


def _within(number: int, low: int, high: int) -> int:
    if not low <= number <= high:
        raise argparse.ArgumentTypeError(f"must be between {low} and {high}")
    return number


def _configure(way: str) -> None:
    import django
    from django.conf import settings

    if not settings.configured:
        # Other processes, which count as well, read the settings by themselves.
        os.environ[WAY] = way
        # Not setdefault: somebody's own project may be exported.
        os.environ["DJANGO_SETTINGS_MODULE"] = "example_project.settings"
        django.setup()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
