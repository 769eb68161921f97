"""Each mechanism that a promise of the API rests on, and the test that guards it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_BASE = "django_counters/rest/base.py"
_ADMISSION = "django_counters/kinds/admission.py"
_BEACONS = "tests/rest/test_beacons.py"
_BODIES = "tests/rest/test_bodies.py"
_COUNTING = "tests/rest/test_counting.py"
_MAKING = "tests/rest/test_admission.py"
_READING = "tests/rest/test_reading.py"
_ROLES = "tests/rest/test_roles.py"

REST: tuple[Mutant, ...] = (
    Mutant(
        "rest: what is not declared is for everybody",
        "django_counters/rest/permissions.py",
        "def _nobody(request: Request, action: str) -> bool:  # noqa: ARG001\n    return False\n",
        "def _nobody(request: Request, action: str) -> bool:  # noqa: ARG001\n    return True\n",
        f"{_ROLES}::test_every_role_at_every_endpoint[secret-user-increment]",
    ),
    Mutant(
        "rest: the counters of a bulk are not asked for one by one",
        _BASE,
        "            if permission.has",
        "            if len(keys) > 1 or permission.has",
        f"{_ROLES}::TestPermissionClasses::test_one_that_asks_the_record",
    ),
    Mutant(
        "rest: a refusal does less where there is nothing",
        _BASE,
        "        permission.waste(self.request)\n        if is_anonymous",
        "        if is_anonymous",
        "tests/rest/test_timing.py::test_forbidden_by_permission_and_unknown",
    ),
    Mutant(
        "rest: hidden records",
        "django_counters/rest/exposed.py",
        "(self.model._default_manager if self.records is None else self.records).all()",
        "self.model._default_manager.all()",
        f"{_ROLES}::test_a_record_is_asked_for_anew",
    ),
    Mutant(
        "rest: beacons of any site",
        _BASE,
        "            self._admit_origin(target.access)\n",
        "",
        f"{_BEACONS}::test_other_sites_count_nothing",
    ),
    Mutant(
        "rest: beacons by any number",
        _BASE,
        "access.max_delta if is_user(self.request) else 1",
        "access.max_delta",
        f"{_BEACONS}::test_a_visitor_counts_no_more_than_one",
    ),
    Mutant(
        "rest: a limit that is not asked",
        _BASE,
        "            if access.limit:\n",
        "            if False:\n",
        f"{_BEACONS}::test_there_is_a_limit_for_each_address",
    ),
    Mutant(
        "rest: any amount at once",
        _BASE,
        "        if abs(by) > most:\n",
        "        if most == 1 < abs(by):\n",
        f"{_COUNTING}::TestEveryKind::test_more_at_once_than_is_declared[exact]",
    ),
    Mutant(
        "rest: a decrement of any amount",
        _BASE,
        "        if abs(by) > most:\n",
        "        if by > most:\n",
        f"{_COUNTING}::TestEveryKind::test_more_at_once_than_is_declared[exact]",
    ),
    Mutant(
        "rest: any number of counters",
        _BASE,
        "admit(named, access.max_counters)",
        "admit(named, 2**62)",
        f"{_MAKING}::test_it_holds_for_each_change",
    ),
    Mutant(
        "rest: a counter that is made before there is room",
        _ADMISSION,
        "        with number.all_or_nothing(alias):\n            _, created",
        "        if alias:\n            _, created",
        f"{_MAKING}::test_it_holds_for_each_change",
    ),
    Mutant(
        "rest: known counters are asked for again",
        _ADMISSION,
        "    known.update(set(unknown) - set(refused))\n",
        "",
        f"{_MAKING}::test_asking_costs_nothing_the_second_time",
    ),
    Mutant(
        "rest: a bulk of several transactions",
        "django_counters/rest/bulk.py",
        "        with number.all_or_nothing(using):\n",
        "        if using:\n",
        f"{_COUNTING}::TestMany::test_one_at_its_bound_stops_all",
    ),
    Mutant(
        "rest: a bulk of several places",
        "django_counters/rest/bulk.py",
        " or (joining == {False} and not _is_one_step(targets)):\n",
        ":\n        joining = {True}\n    if len(places) > 1:\n",
        f"{_COUNTING}::TestMany::test_what_no_step_changes_together_is_refused",
    ),
    Mutant(
        "rest: true is one",
        "django_counters/rest/bodies.py",
        "        if type(data) is not int:\n",
        "        if not isinstance(data, int):\n",
        f"{_COUNTING}::TestEveryKind::test_what_is_no_amount_counts_nothing",
    ),
    Mutant(
        "rest: the last of two names",
        "django_counters/rest/parsing.py",
        "    if len(found) < len(pairs):\n",
        "    if False:\n",
        f"{_BODIES}::test_what_is_no_body_is_bad_and_counts_nothing",
    ),
    Mutant(
        "rest: a body that is not read counts one",
        _BASE,
        "        check_carried(self.request)\n",
        "",
        f"{_BODIES}::test_a_body_of_unknown_length_is_not_taken_for_none",
    ),
    Mutant(
        "rest: half a character is answered",
        "django_counters/rest/parsing.py",
        '            if b"\\\\u" in body:\n',
        "            if False:\n",
        f"{_BODIES}::TestAnything::test_any_json",
    ),
    Mutant(
        "rest: an exact value that is not",
        "django_counters/rest/reading.py",
        '        if reading.consistency != "exact":\n',
        "        if False:\n",
        f"{_READING}::TestWithoutRedis::test_many",
    ),
)
