"""Each mechanism that the Idempotency-Key of a request rests on, and the test that guards it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ONCE = "django_counters/rest/idempotency.py"
_KEEP = 'tokens.keep(self.token, {"body": body})\n'
_REPLAYED = "tests/rest/test_idempotency.py::TestEveryChange"
_DYING = "tests/rest/test_idempotency_dying.py"
_BESIDE = f"{_DYING}::TestBesideTheTransaction"

IDEMPOTENCY = (
    Mutant(
        "idempotency: claimed after the work",
        _ONCE,
        "            kept = self._claim(tokens)\n"
        '            if kept is not None and "body" in kept:\n'
        '                return Answer(kept["body"], True)\n'
        '            if kept is not None and kept["until"]:\n'
        "                # Somebody was at it when the counter was still kept elsewhere.\n"
        "                raise OutcomeUnknown(using=self.using)\n"
        "            body = work(None)\n",
        "            body = work(None)\n"
        "            kept = self._claim(tokens)\n"
        '            if kept is not None and "body" in kept:\n'
        '                return Answer(kept["body"], True)\n',
        f"{_REPLAYED}::test_the_same_again_is_answered_the_same[exact]",
    ),
    Mutant(
        "idempotency: the answer is kept in another transaction",
        _ONCE,
        f"            {_KEEP}        return Answer(body, False)\n\n    def _claimed_first",
        f"        {_KEEP}        return Answer(body, False)\n\n    def _claimed_first",
        f"{_DYING}::test_the_answer_is_kept_where_it_is_counted_or_neither[exact]",
    ),
    Mutant(
        "idempotency: another body is the same",
        _ONCE,
        "fingerprint = hashlib.sha256(text.encode(",
        "fingerprint = hashlib.sha256(text[:0].encode(",
        f"{_REPLAYED}::test_another_body_is_refused[exact]",
    ),
    Mutant(
        "idempotency: a key belongs to all",
        _ONCE,
        "(principal_of(request), str(request.method)",
        "(str(principal_of), str(request.method)",
        f"{_REPLAYED}::test_another_key_and_another_person_count_again[exact]",
    ),
    Mutant(
        "idempotency: nobody is waited for",
        _ONCE,
        'elif kept["until"] > now.timestamp():',
        "elif False:",
        f"{_BESIDE}::test_one_that_died_is_waited_for",
    ),
    Mutant(
        "idempotency: Redis is told no token",
        _ONCE,
        'UUID(attempt["token"]) if self.resumes else None',
        "None",
        f"{_BESIDE}::test_with_a_token_it_is_resumed",
    ),
    Mutant(
        "idempotency: each attempt has a token of its own",
        _ONCE,
        'token = kept["token"]',
        "token = mint(now).hex",
        f"{_BESIDE}::test_with_a_token_it_is_resumed",
    ),
    Mutant(
        "idempotency: what has no token is counted again",
        _ONCE,
        'elif kept["until"] and not self.resumes:',
        "elif False:",
        f"{_BESIDE}::test_without_a_token_nobody_knows",
    ),
    Mutant(
        "idempotency: an unknown outcome is taken for none",
        _ONCE,
        "        except OutcomeUnknown:\n",
        "        except KeyError:\n",
        f"{_BESIDE}::test_an_answer_of_redis_is_lost",
    ),
    Mutant(
        "idempotency: an unknown outcome is answered with 503",
        "django_counters/rest/problems.py",
        "errors.OutcomeUnknown: _UNKNOWN",
        "errors.OutcomeUnknown: _AWAY",
        f"{_BESIDE}::test_an_answer_of_redis_is_lost",
    ),
    Mutant(
        "idempotency: who comes late takes the answer away",
        _ONCE,
        "if self._is_ours(tokens, attempt):",
        "if True:",
        f"{_BESIDE}::test_one_who_comes_late_takes_no_answer_away",
    ),
    Mutant(
        "idempotency: what is counted and cannot be kept is an error",
        _ONCE,
        f"        with suppress(CounterError, Error):\n            {_KEEP}",
        f"        with suppress(CounterError):\n            {_KEEP}",
        f"{_DYING}::TestTheDatabaseGoes::test_before_the_answer_is_kept",
    ),
    Mutant(
        "idempotency: a request waits for another one",
        "django_counters/stores/sql/tokens.py",
        "        return bool(alone)\n",
        "        return True\n",
        f"{_DYING}::TestSeveralAtOnce::test_one_that_is_being_worked_on[exact]",
    ),
)
