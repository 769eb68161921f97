"""The condition of the app: each voucher adds its amount once, and can be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django_counters import clock
from django_counters.errors import InvalidActor
from django_counters.event import actor_of
from django_counters.measure import Condition, ConditionKind, RowColumn
from django_counters.write.changes import Change

VOUCHER = ConditionKind(
    "voucher",
    "moods_voucher",
    (
        RowColumn("o", "owner", "text"),
        RowColumn("k", "key", "text"),
        RowColumn("c", "code", "text"),
        RowColumn("at", "used_at", "timestamptz"),
    ),
    claim="django_counters_redeem",
    unclaim="django_counters_unredeem",
)


@dataclass(frozen=True)
class OncePerVoucher:
    """A voucher is the ``who`` of a change."""

    option: str = "vouchers"
    reason: str = "each voucher counts once"
    counts_rows: bool = False

    def condition(self, change: Change) -> Condition:
        code = actor_of(change.event.who)
        row = change.ref.owner, change.ref.text, code, clock.utc()
        return Condition(VOUCHER, row, takes_back=change.by < 0)

    def refusal(self, key: str) -> Exception:
        return InvalidActor(who=None, reason=f"{key} needs a voucher")

    def forget(self, owner: str, keys: Sequence[str], using: str) -> int:
        from tests.extension.models import Voucher

        rows = Voucher.objects.using(using).filter(owner=owner, key__in=keys)
        return rows.delete()[0]


FUNCTIONS = (
    f"""
CREATE FUNCTION django_counters_redeem(o text, k text, c text, at timestamptz, d int)
RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
  IF d > 0 THEN
    INSERT INTO {VOUCHER.table} (owner, key, code, used_at) VALUES (o, k, c, at)
    ON CONFLICT DO NOTHING;
  ELSE
    DELETE FROM {VOUCHER.table} v WHERE v.owner = o AND v.key = k AND v.code = c
    RETURNING v.used_at INTO at;
  END IF;
  RETURN CASE WHEN FOUND THEN at END;
END $$
""",
    f"""
CREATE FUNCTION django_counters_unredeem(o text, k text, c text, at timestamptz, d int)
RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  IF d > 0 THEN
    DELETE FROM {VOUCHER.table} v WHERE v.owner = o AND v.key = k AND v.code = c;
  ELSE
    INSERT INTO {VOUCHER.table} (owner, key, code, used_at) VALUES (o, k, c, at);
  END IF;
  RETURN NULL;
END $$
""",
)
