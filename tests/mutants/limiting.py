"""Each mechanism that a promise of rate limits rests on, and the test that guards it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_SQL = "django_counters/stores/sql/limits.py"
_REDIS = "django_counters/stores/redis/limits.py"
_STATEMENT = "django_counters/stores/sql/dialects/limits.py"
_SCRIPTS = "django_counters/stores/redis/scripts.py"
_THROTTLING = "django_counters/rest/throttling.py"
_PRINCIPAL = "django_counters/rest/principal.py"
_KIND = "tests/kinds/test_limit.py"
_VIEWS = "tests/rest/test_throttling.py"
_RUN = "            admitted, ahead = self._client.run(command)\n"

LIMITING = (
    Mutant(
        "limit: SELECT, then UPDATE",
        _SQL,
        "        taken = self._session.run(self._sql.take, params)\n",
        "        seen = self._session.run(self._sql.ahead, (digest,), writes=False)\n"
        "        taken = []\n"
        "        if not seen or max(int(seen[0][0]), 0) + cost <= full:\n"
        "            params['full'] = 10**15\n"
        "            taken = self._session.run(self._sql.take, params)\n",
        f"{_KIND}::test_a_hundred_at_once_admit_ten_in_the_database",
    ),
    Mutant(
        "limit: no condition on what is left",
        _STATEMENT,
        'f"WHERE l.arrival + %(cost)s <= {now} + %(full)s OR {strange} "',
        '""',
        f"{_KIND}::TestOneAfterTheOther::test_as_many_as_it_says_and_no_more[database]",
    ),
    Mutant(
        "limit: the clock is asked before the row is had",
        _STATEMENT,
        'f"WHERE l.arrival + %(cost)s <= {now} + %(full)s',
        'f"WHERE l.arrival + %(cost)s <= EXCLUDED.arrival - %(cost)s + %(full)s',
        "tests/stores/test_limits.py::TestHeld::test_the_clock_is_asked_when_the_row_is_had",
    ),
    Mutant(
        "limit: a bucket in the database has no bottom where the clock was set back",
        _STATEMENT,
        'WHEN {strange} "\n        f"THEN {now} + %(full)s - %(cost)s ELSE',
        'WHEN {strange} "\n        f"THEN {now} ELSE',
        f"{_KIND}::TestDatabase::test_a_clock_that_was_set_back",
    ),
    Mutant(
        "limit: Redis is looked at, then changed",
        _REDIS,
        _RUN,
        "            from django_counters.stores.redis.scripts import Script\n"
        "            lines = TAKE.text.splitlines()\n"
        "            look = [line for line in lines if \"redis.call('SET'\" not in line]\n"
        "            put = [line for line in lines if 'if arrival + cost' not in line]\n"
        "            asked = command._replace(script=Script('\\n'.join(look)))\n"
        "            admitted, ahead = self._client.run(asked)\n"
        "            if admitted:\n"
        "                self._client.run(command._replace(script=Script('\\n'.join(put))))\n",
        f"{_KIND}::test_a_hundred_at_once_admit_ten_in_redis",
    ),
    Mutant(
        "limit: Redis is told the time",
        _REDIS,
        _RUN,
        "            from django_counters import clock\n"
        "            from django_counters.stores.redis.scripts import Script\n"
        "            own = TAKE.text.replace(\"redis.call('TIME')\", '{ ARGV[3], 0 }')\n"
        "            told = (cost, full, int(clock.utc().timestamp()))\n"
        "            admitted, ahead = self._client.run(\n"
        "                command._replace(script=Script(own), args=told)\n"
        "            )\n",
        f"{_KIND}::TestOneAfterTheOther::test_the_clock_of_this_machine_is_not_asked[redis]",
    ),
    Mutant(
        "limit: Redis keeps what is full",
        _SCRIPTS,
        'TAKE = Script(_read("take"))',
        'TAKE = Script(_read("take").replace(", \'PX\', math.ceil(ahead / 1000)", ""))',
        f"{_KIND}::TestRedis::test_it_goes_when_it_is_full",
    ),
    Mutant(
        "limit: a lost answer is an error like any other",
        _REDIS,
        "        except (Refused, OutcomeUnknown) as error:\n",
        "        except Refused as error:\n",
        "tests/stores/redis/test_limits.py::test_a_lost_answer_may_have_taken",
    ),
    Mutant(
        "limit: whoever waits too long breaks its transaction",
        _SQL,
        "        return nullcontext() if own else self._session.all_or_nothing()\n",
        "        return nullcontext() if own or self else self._session.all_or_nothing()\n",
        "tests/stores/test_limits.py::TestHeld"
        "::test_whoever_waits_too_long_goes_on_with_its_transaction",
    ),
    Mutant(
        "throttle: the client says where it comes from",
        _PRINCIPAL,
        "    return hops[-min(proxies, len(hops))]\n",
        "    return hops[0]\n",
        f"{_VIEWS}::TestPrincipals::test_a_forged_header_does_not_help[1]",
    ),
    Mutant(
        "throttle: a header that no proxy is known to write",
        _PRINCIPAL,
        "    if not proxies or not forwarded:\n        return direct\n",
        "    if not forwarded:\n        return direct\n    if not proxies:\n"
        "        return forwarded\n",
        f"{_VIEWS}::TestPrincipals::test_a_forged_header_does_not_help[None]",
    ),
    Mutant(
        "throttle: each address of a network is another client",
        _PRINCIPAL,
        "_HOST_BITS = 64",
        "_HOST_BITS = 0",
        f"{_VIEWS}::TestPrincipals::test_all_addresses_of_a_network_are_one",
    ),
    Mutant(
        "throttle: all are admitted while the store is away",
        _THROTTLING,
        '        if when_away == "admit":\n',
        "        if True:\n",
        f"{_VIEWS}::TestAway::test_it_refuses",
    ),
)
