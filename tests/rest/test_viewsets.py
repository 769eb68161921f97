"""View sets of a project's own that count: they decide who may, and a retry counts once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.checks import Tags, run_checks
from django.db import connections, transaction
from django.urls import resolve, reverse
from drf_spectacular.generators import SchemaGenerator

from django_counters.contrib import series
from django_counters.errors import CounterUnavailable, InvalidConfiguration
from tests.rest import viewset_urls
from tests.rest.asking import assert_first, assert_replayed, header
from tests.rest.conftest import As, Client, problem
from tests.rest.measured import land
from tests.testapp.models import Account, Article, Member, Note, Post, Product, Story

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.rest.viewset_urls")]
THEN = datetime(2024, 5, 1, 10, tzinfo=UTC)
ON_COMMIT = pytest.mark.django_db(transaction=True)


def url_of(record: Any, field: str, verb: str = "increment") -> str:
    name = "stories" if isinstance(record, Story) else f"{type(record).__name__.lower()}s"
    return f"/{name}/{record.pk}/{field}/{verb}/"


@pytest.fixture
def post() -> Post:
    return Post.objects.create(likes=5)


def likes(post: Post) -> int:
    return int(Post.objects.get(pk=post.pk).likes)


class ByModel:
    """A router that looks at the model, as those of projects do."""

    def db_for_write(self, model: Any, **_: Any) -> str | None:
        return "default" if model._meta.app_label == "testapp" else None


class TestCounting:
    def test_one_more(self, as_: As, post: Post) -> None:
        answer = as_("user").post(url_of(post, "likes"))
        assert_first(answer)
        body = answer.json()
        assert (body["key"], body["value"], body["applied"]) == (
            f"testapp.Post.likes:{post.pk}",
            6,
            1,
        )
        assert answer["Cache-Control"] == "no-store"
        assert likes(post) == 6
        assert reverse("post-increment", args=(post.pk, "likes")) == url_of(post, "likes")

    def test_a_request_that_is_sent_again(self, as_: As, post: Post) -> None:
        client, other = as_("user"), as_("user")
        first = client.post(url_of(post, "likes"), **header("one"))
        assert_first(first)
        assert_replayed(client.post(url_of(post, "likes"), **header("one")), first)
        assert likes(post) == 6
        assert_first(other.post(url_of(post, "likes"), **header("one")))
        assert likes(post) == 7

    def test_a_record_that_is_lazy(self, as_: As, settings: Any) -> None:
        settings.DATABASE_ROUTERS = [f"{__name__}.ByModel"]
        member, client = Member.objects.create(), as_("anonymous")
        first = client.post(url_of(member, "requests"), **header("one"))
        assert_first(first)
        assert_replayed(client.post(url_of(member, "requests"), **header("one")), first)
        assert Member.objects.get().requests == 1

    @ON_COMMIT
    def test_a_cached_field(self, as_: As, cached: str) -> None:
        client, article = as_("anonymous"), Article.objects.create()
        first = client.post(url_of(article, "reads"), {"by": 3}, **header("one"))
        assert_first(first)
        again = client.post(url_of(article, "reads"), {"by": 3}, **header("one"))
        assert_replayed(again, first)
        assert article.reads.value() == 3

    def test_who_counts_once(self, as_: As) -> None:
        note, client = Note.objects.create(), as_("user")
        answers = [client.post(url_of(note, "likes")).json()["replayed"] for _ in range(2)]
        assert answers == [False, True]
        assert as_("user").post(url_of(note, "likes")).json()["value"] == 2
        problem(as_("anonymous").post(url_of(note, "likes")), 400, "invalid")
        assert Note.objects.get().likes == 2


class TestWhatIsTold:
    """Tags, moments and who it is, and what is taken back: as by the endpoints of the API."""

    @ON_COMMIT
    @pytest.mark.parametrize("field", ["opens", "plays", "reads"])
    def test_tags_and_a_moment(self, as_: As, cached: str, field: str) -> None:
        client, story = as_("user"), Story.objects.create()
        past: dict[str, Any] = {"tags": {"country": "FR"}, "at": "2024-05-01T12:00:00+02:00"}
        told = ({"by": 4, "tags": {"country": "DE"}}, {"by": 2, **past})
        for body in told:
            assert_first(client.post(url_of(story, field), body))
        assert_first(client.post(url_of(story, field, "decrement"), past))
        land()
        counts = series.of(getattr(Story.objects.get(), field))
        values = {value: counts.where(country=value).total() for value in ("DE", "FR")}
        assert values == {"DE": 4, "FR": 1}
        assert counts.between(datetime(2024, 5, 1, tzinfo=UTC), THEN).total() == 0
        assert counts.between(THEN, datetime(2024, 5, 2, tzinfo=UTC)).total() == 1

    def test_another_moment_is_another_request(self, as_: As) -> None:
        client, story = as_("user"), Story.objects.create()
        url, at = url_of(story, "opens"), "2024-05-01T12:00:00Z"
        first = client.post(url, {"at": at}, **header("one"))
        assert_first(first)
        assert_replayed(client.post(url, {"at": at, "by": 1}, **header("one")), first)
        problem(client.post(url, {}, **header("one")), 422, "idempotency-key-reused")
        # Of another address the key is another one.
        assert_first(client.post(url_of(story, "opens", "decrement"), {"at": at}, **header("one")))
        assert Story.objects.get().opens == 0

    @pytest.mark.parametrize("verb", ["increment", "decrement"])
    def test_what_cannot_be_counted_so(self, as_: As, post: Post, verb: str) -> None:
        user, visitor, story = as_("user"), as_("anonymous"), Story.objects.create(opens=5)
        url = url_of(story, "opens", verb)
        for body in ({"tags": {"planet": "Mars"}}, {"at": "2999-01-01T00:00:00Z"}):
            problem(user.post(url, body), 400, "invalid")
        wrong: dict[str, Any] = {"tags": [], "at": "2024-05-01T12:00:00", "who": "", "when": 1}
        for body in ({name: value} for name, value in wrong.items()):
            answer = user.post(url, body)
            assert (answer.status_code, list(answer.json())) == (400, list(body))
        naive = visitor.post(url, {"at": "2024-05-01T12:00:00Z"})
        assert (naive.status_code, list(naive.json())) == (400, ["at"])
        problem(user.post(url_of(post, "likes"), {"tags": {"country": "DE"}}), 400, "unsupported")
        assert user.post(url, {"by": 11}).status_code == 400
        assert (Story.objects.get().opens, likes(post)) == (5, 5)

    def test_no_more_is_taken_than_there_is(self, as_: As) -> None:
        client, story = as_("user"), Story.objects.create(opens=5)
        url = url_of(story, "opens", "decrement")
        found = problem(client.post(url, {"by": 6}), 409, "insufficient-count")
        assert (found["requested"], found["available"]) == (6, 5)
        answer = client.post(url, {"by": 5}).json()
        assert (answer["value"], answer["applied"]) == (0, -5)
        # A decrement takes nobody out of a set.
        problem(client.post(url, {"who": "x"}), 400, "invalid")

    def test_who_counts_once_takes_it_back(self, as_: As) -> None:
        note, first, second = Note.objects.create(), as_("user"), as_("user")
        for client, verb, value, replayed in (
            (first, "increment", 1, False),
            (second, "decrement", 1, True),
            (second, "increment", 2, False),
            (first, "decrement", 1, False),
            (first, "decrement", 1, True),
        ):
            body = client.post(url_of(note, "likes", verb)).json()
            assert (body["value"], body["replayed"]) == (value, replayed)

    def test_a_visitor_says_who_it_is(self, as_: As) -> None:
        note, visitor, user = Note.objects.create(), as_("anonymous"), as_("user")
        for who, value in (("x", 1), ("x", 1), ("y", 2)):
            assert visitor.post(url_of(note, "likes"), {"who": who}).json()["value"] == value
        assert visitor.post(url_of(note, "likes", "decrement"), {"who": "x"}).json()["value"] == 1
        # Nobody is taken for somebody else.
        for verb in ("increment", "decrement"):
            answer = user.post(url_of(note, "likes", verb), {"who": "y"})
            assert (answer.status_code, list(answer.json())) == (403, ["detail"])
        assert Note.objects.get().likes == 1


class TestRefused:
    def test_by_the_permissions_of_the_view_set(self, as_: As, post: Post) -> None:
        assert as_("anonymous").post(url_of(post, "likes")).status_code == 401
        hidden, private = (Post.objects.create(title=title) for title in ("hidden", "private"))
        assert as_("superuser").post(url_of(hidden, "likes")).status_code == 404
        answer = as_("superuser").post(url_of(private, "likes"))
        assert answer.status_code == 403
        # As the view set answers its own refusals.
        assert list(answer.json()) == ["detail"]
        assert [likes(one) for one in (post, hidden, private)] == [5, 0, 0]

    def test_fields_that_are_not_named(self, as_: As, post: Post) -> None:
        client = as_("superuser")
        for name in ("views", "title", "nothing", "pk", "delete"):
            assert client.post(url_of(post, name)).status_code == 404
        assert client.post(f"/silent/{post.pk}/likes/increment/").status_code == 404
        # Only those count down that say so.
        assert client.post(url_of(post, "likes", "decrement")).status_code == 404
        assert client.get(url_of(post, "likes")).status_code == 405
        assert likes(post) == 5

    def test_a_field_that_is_not_named_has_a_reason_in_debug(
        self, as_: As, post: Post, settings: Any
    ) -> None:
        for debug in (True, False):
            settings.DEBUG = debug
            answer = as_("superuser").post(f"/silent/{post.pk}/likes/increment/")
            assert ("SilentViewSet.counter_fields has no 'likes'." in answer.text) is debug

    @pytest.mark.parametrize("by", [2, 0, -1, "1", 1.0, True, None])
    def test_another_amount(self, as_: As, post: Post, by: Any) -> None:
        answer = as_("user").post(url_of(post, "likes"), {"by": by})
        assert (answer.status_code, list(answer.json())) == (400, ["by"])
        assert as_("user").post(url_of(post, "likes"), {"bye": 1}).status_code == 400
        form = as_("user").post(url_of(post, "likes"), {"by": 1}, format="multipart")
        assert form.status_code == 415
        assert likes(post) == 5

    def test_by_the_throttle_of_the_view_set(self, as_: As, cached: str) -> None:
        client, article = as_("user"), Article.objects.create()
        statuses = [client.post(url_of(article, "reads")).status_code for _ in range(4)]
        assert statuses == [200, 200, 200, 429]

    def test_by_the_bounds_of_the_field(self, as_: As) -> None:
        product = Product.objects.create(stock=5)
        answer = as_("user").post(url_of(product, "stock"), {"by": 996})
        found = problem(answer, 409, "ceiling-exceeded")
        assert (found["requested"], found["available"]) == (996, 995)
        # The view set has a say in it, too.
        assert answer["X-Handled"] == "yes"
        assert Product.objects.get().stock == 5

    def test_amounts_with_decimal_places(self, as_: As) -> None:
        account = Account.objects.create()
        with pytest.raises(InvalidConfiguration, match="decimal places"):
            as_("user").post(url_of(account, "balance"))


class TestTransactions:
    def test_only_the_action_is_outside_of_the_transaction_of_a_request(self, post: Post) -> None:
        def left_out(url: str) -> set[str]:
            found: set[str] = getattr(resolve(url).func, "_non_atomic_requests", set())
            return found

        assert left_out(url_of(post, "likes")) == set(connections)
        assert left_out(f"/posts/{post.pk}/") == set()
        assert left_out(url_of(Story.objects.create(), "opens", "decrement")) == set(connections)
        assert left_out(f"/own/{post.pk}/decrement/") == set()
        # An action of the project that is called alike has its own errors, too.
        with pytest.raises(CounterUnavailable):
            Client().post(f"/own/{post.pk}/decrement/")

    @ON_COMMIT
    @pytest.mark.parametrize("name", ["likes", "reads"])
    def test_a_count_is_committed_before_the_answer(
        self, as_: As, cached: str, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(connections["default"].settings_dict, "ATOMIC_REQUESTS", True)
        record = Post.objects.create() if name == "likes" else Article.objects.create()
        inside: list[bool] = []
        kept = viewset_urls.OpenViewSet.finalize_response

        def finalize(view: Any, *args: Any, **kwargs: Any) -> Any:
            inside.append(transaction.get_connection().in_atomic_block)
            return kept(view, *args, **kwargs)

        for view_set in (viewset_urls.PostViewSet, viewset_urls.ArticleViewSet):
            monkeypatch.setattr(view_set, "finalize_response", finalize)
        first = as_("user").post(url_of(record, name), **header("one"))
        assert_first(first)
        assert inside == [False]


def test_view_sets_that_cannot_count_are_found() -> None:
    found = [str(one.msg) for one in run_checks(tags=[Tags.urls]) if one.id == "counters.E047"]
    assert found == [
        "AccountViewSet: testapp.Account has no counter field 'balance'.",
        "OwnDecrementViewSet counts, and its counter_fields are empty.",
        "SilentViewSet counts, and its counter_fields are empty.",
        "MisspeltViewSet counts, and its counter_fields are empty.",
    ]


def test_it_is_in_the_schema() -> None:
    generator: Any = SchemaGenerator
    schema = generator(patterns=viewset_urls.urlpatterns).get_schema(public=True)
    found = schema["paths"]["/posts/{id}/{counter}/increment/"]["post"]
    content = found["requestBody"]["content"]["application/json"]["schema"]
    assert content == {"$ref": "#/components/schemas/CounterChangeBody"}
    assert {one["name"] for one in found["parameters"]} >= {"id", "counter", "Idempotency-Key"}
