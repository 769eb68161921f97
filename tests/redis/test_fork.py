"""A process that was forked says nothing on the connections of its parent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# In a process of its own, since that of the tests has other threads. The debugger of asyncio would
# tell of each step that took long, on a busy machine, where nothing at all is expected.
SCRIPT = """
import asyncio, json, os, sys
from concurrent.futures import ThreadPoolExecutor
from django.conf import settings
settings.configure(CACHES={})
from tests.redis.counting import add, fresh
from django_counters.redis.addresses import address_of
from django_counters.redis.aclient import aclient_of
from django_counters.redis.client import client_of
key = sys.argv[1]
address = address_of(os.environ["REDIS_URL"], {"timeout": 10})
client, aclient = client_of(address), aclient_of(address)
TURNS = 200

def turns():
    return [client.run(add(key)) for _ in range(TURNS)], client.call("CLIENT", "ID")

async def aturns():
    return [await aclient.run(add(key)) for _ in range(TURNS)], await aclient.call("CLIENT", "ID")

async def before_and_after():
    first = await aturns()
    before = turns()
    # A thread that does not exist in the child holds the locks.
    breaker = client.route._breakers[address.nodes[0]]
    breaker._lock.acquire()
    breaker._count = 1
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with ThreadPoolExecutor(1) as pool:
                told = turns(), pool.submit(asyncio.run, aturns(), debug=False).result()
            os.write(writing, json.dumps(told).encode())
        finally:
            os._exit(0)
    breaker._count = 0
    breaker._lock.release()
    after = turns(), await aturns()
    os.close(writing)
    with os.fdopen(reading) as answer:
        told = json.load(answer)
    os.waitpid(child, 0)
    print(json.dumps([[before, first], told, after]))

asyncio.run(before_and_after(), debug=False)
"""


def run(script: str, key: str) -> subprocess.CompletedProcess[str]:
    """Run a script that was given a key, to its end."""
    told = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, key],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return told


def test_a_child_has_connections_of_its_own(key: str) -> None:
    told = run(SCRIPT, key)
    assert told.stderr == ""
    before, child, after = json.loads(told.stdout)
    ids = [[each[1] for each in part] for part in (before, child, after)]
    assert ids[0] == ids[2]
    assert len({*ids[0], *ids[1]}) == 4
    # Each reply went to who asked: no answer twice, none missing.
    replies = [reply for part in (before, child, after) for each in part for reply in each[0]]
    assert sorted(replies) == list(range(1, 1201))


# As uWSGI forks: nothing of what Python does after a fork happens.
UNTOLD = """
import ctypes, json, os, sys
from django.conf import settings
settings.configure(CACHES={})
from tests.redis.counting import add, fresh
client, key = fresh(), sys.argv[1]

def turns():
    return [client.run(add(key)) for _ in range(100)], client.call("CLIENT", "ID")

before = turns()
(reading, writing), (ready, told) = os.pipe(), os.pipe()
child = ctypes.PyDLL(None).fork()
if child == 0:
    # Alone at first: nothing that waits on the parent's connection gives it away.
    own = client.call("CLIENT", "ID")
    os.write(told, b".")
    os.write(writing, json.dumps([turns()[0], own]).encode())
    os._exit(0)
os.read(ready, 1)
after = turns()
os.waitpid(child, 0)
again = turns()
os.close(writing)
with os.fdopen(reading) as answer:
    print(json.dumps([before, json.load(answer), after, again]))
"""


def test_a_child_that_python_was_not_told_of_has_a_connection_of_its_own(key: str) -> None:
    before, child, after, again = json.loads(run(UNTOLD, key).stdout)
    # That the child closes its copy takes nothing from the parent.
    assert before[1] == after[1] == again[1] != child[1]
    replies = [reply for part in (before, child, after, again) for reply in part[0]]
    assert sorted(replies) == list(range(1, 401))


FIRST_USE = """
import asyncio, contextlib, os, sys
import dj_database_url, django
from django.conf import settings
redis = "django.core.cache.backends.redis.RedisCache"
settings.configure(
    INSTALLED_APPS=[
        "django.contrib.contenttypes", "django_counters", "django_counters.contrib.limits",
        "rest_framework",
    ],
    DATABASES={"default": dj_database_url.parse(os.environ["DATABASE_URL"])},
    CACHES={"default": {"BACKEND": redis, "LOCATION": os.environ["REDIS_URL"], "KEY_PREFIX": "f"}},
    COUNTERS={"views": {"STRATEGY": "cached"}},
)
django.setup()
from django.db import Error
from rest_framework.exceptions import APIException
from django.http import HttpRequest
from django_counters.access import Access
from django_counters.features import charges
from django_counters.models import Counter
before = set(sys.modules)
for charge in charges():
    # The store may answer too late, which doesn't matter here.
    with contextlib.suppress(APIException):
        charge(HttpRequest(), "views", Access(limit="9/s"), 1)
for key in ("a", "views:a"):
    # There are no tables; and nobody needs them here.
    with contextlib.suppress(Error):
        Counter.objects.increment(key)
    with contextlib.suppress(Error):
        asyncio.run(Counter.objects.aincrement(key))
ours = ("django_counters", "psycopg", "redis")
print(sorted(name for name in set(sys.modules) - before if name.startswith(ours)))
"""


def test_the_first_use_imports_nothing() -> None:
    """A child that is forked while another thread imports something waits for it for ever."""
    # The connections are left to Python, which may say so.
    call = [sys.executable, "-W", "ignore::ResourceWarning", "-c", FIRST_USE]
    told = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (told.stdout.strip(), told.stderr) == ("[]", "")
