"""Tokens: what is one, the UUIDv7 that carries its time, and the one that is made of a text."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_counters import clock
from django_counters.errors import InvalidToken
from django_counters.models import CounterDelta
from django_counters.tokens import (
    TOKEN_LENGTH,
    Token,
    check_token,
    mint,
    moment_of,
    token_of,
)

# From the appendix A.6 of RFC 9562: Tuesday, 22 February 2022, 14:22:22 in New York.
EXAMPLE = "017F22E2-79B0-7CC3-98C4-DC0C0C07398F"
EXAMPLE_TIME = datetime(2022, 2, 22, 19, 22, 22, tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
DIGESTS = ["7303730ad0145b08", "9cd00e3c712df0ae", "c106b63a6f538084"]
TOKENS_OF = ["017f22e2-79b0-7aab-9122-05bd6f790c54", "017f22e2-79b0-7353-a267-1b67afff0941"]

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=TOKEN_LENGTH)
moments = st.datetimes(datetime(1970, 1, 1), LAST.replace(tzinfo=None), timezones=st.just(UTC))  # noqa: DTZ001


def to_milliseconds(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


class TestWhatIsOne:
    def test_the_last_moment_of_the_calendar_is_within_it(self) -> None:
        token = mint(LAST)
        assert check_token(token).uuid == token
        later = UUID(int=token.int + (1 << 80))
        # What is beyond has no time to go by: it is a text like any other.
        assert check_token(later).uuid is None


class TestUuid:
    @pytest.mark.parametrize("spelling", ["{}", "{{{}}}", "urn:uuid:{}", "URN:UUID:{}"])
    @pytest.mark.parametrize("example", [UUID(EXAMPLE), uuid.uuid4()])
    def test_it_is_the_same_token_however_it_is_spelt(self, example: UUID, spelling: str) -> None:
        for text in (str(example), str(example).upper(), str(example).title()):
            token = check_token(spelling.format(text))
            assert token == check_token(example)
            assert token.uuid == (example if example.version == 7 else None)

    @pytest.mark.parametrize(
        "text",
        [
            EXAMPLE.replace("-", ""),
            f"{EXAMPLE} ",
            EXAMPLE.replace("-", "x"),
            # One of another variant: its version means nothing.
            EXAMPLE.replace("98C4", "18C4"),
            # As long, and a UUID to Python; but nobody prints one so.
            EXAMPLE.replace("-", "").lower()[:8] + "----" + EXAMPLE.replace("-", "")[8:],
        ],
    )
    def test_no_other_text_is_one(self, text: str) -> None:
        assert check_token(text).uuid is None

    @pytest.mark.parametrize(
        "other",
        [uuid.uuid1(), uuid.uuid4(), uuid.uuid5(uuid.NAMESPACE_DNS, "a"), UUID(int=0)],
        ids=["1", "4", "5", "none"],
    )
    def test_those_of_other_versions_are_texts(self, other: UUID) -> None:
        """They carry no time, or none that can be trusted."""
        assert check_token(other).uuid is None
        assert check_token(other).digest == check_token(str(other)).digest

    def test_within_a_scope_a_text_is_nothing_but_a_text(self) -> None:
        assert Token(EXAMPLE, "user:1").uuid is None
        upper, lower = Token(EXAMPLE, "user:1"), Token(EXAMPLE.lower(), "user:1")
        assert upper.digest != lower.digest


class TestDigest:
    # Few letters, so that many draws are alike but for where the scope ends.
    short = st.text("a1:", max_size=4)

    @given(short, short, short, short)
    def test_scopes_and_texts_are_told_apart(
        self, text: str, scope: str, other_text: str, other_scope: str
    ) -> None:
        one, other = Token(text, scope), Token(other_text, other_scope)
        assert (one.digest == other.digest) == (one == other)

    def test_it_is_part_of_the_contract(self) -> None:
        """SHA-256: a server of another version must find the same token."""
        digests = [Token("order-17").digest, Token("a", "user:1").digest, Token(EXAMPLE).digest]
        assert [digest.hex()[:16] for digest in digests] == DIGESTS


class TestMint:
    @given(moments)
    def test_it_carries_its_moment(self, moment: datetime) -> None:
        token = mint(moment)
        assert (token.version, token.variant) == (7, uuid.RFC_4122)
        assert moment_of(token) == to_milliseconds(moment)

    def test_the_example_of_the_rfc(self) -> None:
        assert moment_of(UUID(EXAMPLE)) == EXAMPLE_TIME
        assert mint(EXAMPLE_TIME).hex[:12] == EXAMPLE.replace("-", "").lower()[:12]

    def test_all_but_version_and_variant_is_chance(self) -> None:
        """74 bits of it: each of them is seen as one and as zero."""
        numbers = [mint(EXAMPLE_TIME).int & (2**80 - 1) for _ in range(200)]
        ones = zeros = 0
        for number in numbers:
            ones, zeros = ones | number, zeros | ~number
        assert (ones & zeros & (2**80 - 1)).bit_count() == 74


class TestTokenOf:
    @given(texts, moments)
    def test_the_same_has_the_same(self, text: str, moment: datetime) -> None:
        token = token_of(text, moment)
        assert token == token_of(text, moment.astimezone(timezone(timedelta(hours=9))))
        assert (token.version, token.variant) == (7, uuid.RFC_4122)
        assert moment_of(token) == to_milliseconds(moment)
        assert check_token(token).uuid == token

    @given(texts, texts, moments)
    def test_texts_are_told_apart(self, text: str, other: str, moment: datetime) -> None:
        assert (token_of(text, moment) == token_of(other, moment)) == (text == other)

    @given(texts, moments, moments)
    def test_moments_are_told_apart(self, text: str, moment: datetime, other: datetime) -> None:
        same = to_milliseconds(moment) == to_milliseconds(other)
        assert (token_of(text, moment) == token_of(text, other)) == same

    def test_it_is_part_of_the_contract(self) -> None:
        """Another machine, or a later version, must find the same token for the same line."""
        tokens = [token_of("GET / 200", EXAMPLE_TIME), token_of("größe", EXAMPLE_TIME)]
        assert [str(token) for token in tokens] == TOKENS_OF

    @pytest.mark.parametrize(
        "moment", [EXAMPLE_TIME.replace(tzinfo=None), datetime(1969, 12, 31, 23, 59, tzinfo=UTC)]
    )
    def test_no_other_moment_will_do(self, moment: datetime) -> None:
        """Without a zone it would be another one on another machine."""
        with pytest.raises(InvalidToken, match="a moment since 1970, with a time zone"):
            token_of("GET / 200", moment)

    def test_a_line_that_is_no_proper_text_has_one(self) -> None:
        """As Python reads bytes of a log that are not UTF-8."""
        assert token_of("GET /\udcff", EXAMPLE_TIME) != token_of("GET /\udcfe", EXAMPLE_TIME)


@pytest.mark.django_db
class TestInTheDatabase:
    """Whoever makes the token, it is of one kind, and the entry stands at its time."""

    @pytest.mark.parametrize("way", ["one by one", "many", "copied"])
    def test_an_append_without_one_makes_one(self, way: str) -> None:
        before = clock.utc()
        if way == "one by one":
            returned = {CounterDelta.objects.append("a", 1).token for _ in range(50)}
        else:
            CounterDelta.objects.append_many([("a", 1)] * 50, copy=way == "copied")
        after = clock.utc()
        entries = list(CounterDelta.objects.all())
        found = {entry.token for entry in entries}
        assert len(found) == 50
        assert way != "one by one" or returned == found
        for entry in entries:
            self.is_proper(entry)
            assert before - MILLISECOND <= entry.created_at <= after

    def test_one_that_is_given_is_kept_with_its_time(self) -> None:
        moment = clock.utc() - timedelta(hours=30)
        token = token_of("a line", moment)
        CounterDelta.objects.append("a", 1, token=token)
        (entry,) = CounterDelta.objects.all()
        assert (entry.token, entry.created_at) == (token, to_milliseconds(moment))
        self.is_proper(entry)

    def is_proper(self, entry: CounterDelta) -> None:
        assert (entry.token.version, entry.token.variant) == (7, uuid.RFC_4122)
        assert entry.created_at == moment_of(entry.token)
        assert check_token(entry.token).uuid == entry.token
