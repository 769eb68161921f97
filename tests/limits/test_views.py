"""Views that are limited, sync and async, and the whole site."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from asgiref.sync import async_to_sync, iscoroutinefunction
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.test import AsyncClient, Client, RequestFactory, override_settings
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View

from django_counters.contrib.limits import Limit, LimitResult, limited
from tests.limits.test_limit import some_limit

DAY = 86_400
OTHER = "2.2.2.2"


def plain(request: HttpRequest) -> HttpResponse:
    """A view of this module."""
    return HttpResponse("done")


async def waiting(request: HttpRequest) -> HttpResponse:
    """One for an event loop."""
    return HttpResponse("done")


def ask(view: Any, **headers: Any) -> HttpResponse:
    """The answer of a view to somebody without a login."""
    call = async_to_sync(view) if iscoroutinefunction(view) else view
    answer: HttpResponse = call(RequestFactory().get("/", **headers))
    return answer


@pytest.fixture(params=[plain, waiting], ids=["sync", "async"])
def view(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=["default", None], ids=["redis", "database"])
def cache(request: pytest.FixtureRequest, db: None) -> str | None:
    found: str | None = request.param
    return found


class TestLimited:
    def test_what_is_too_much_is_refused(self, view: Any, cache: str | None) -> None:
        one = limited(some_limit("2/day", cache=cache))(view)
        answers = [ask(one) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert [answer.content for answer in answers[:2]] == [b"done"] * 2
        refused = answers[2]
        assert refused.content == b"Too many requests. Try again later.\n"
        assert DAY / 2 - 60 < int(refused["Retry-After"]) <= DAY / 2
        assert refused["Cache-Control"] == "no-store"
        assert ask(one, REMOTE_ADDR=OTHER).status_code == 200

    def test_clients_are_told(self, view: Any) -> None:
        one = some_limit("9/day", burst=3)
        answer = ask(limited(one, cost=2)(view))
        assert answer["RateLimit-Policy"] == f'"{one.name}";q=9;w={DAY}'
        assert answer["RateLimit"].startswith(f'"{one.name}";r=1;t=')
        assert "Retry-After" not in answer

    def test_of_several_the_nearest(self, view: Any) -> None:
        wide, narrow = some_limit("100/day"), some_limit("4/day")
        for inner, outer in ((wide, narrow), (narrow, wide)):
            answer = ask(limited(outer)(limited(inner)(view)))
            assert answer["RateLimit"].startswith(f'"{narrow.name}"')

    def test_it_is_called_as_its_view(self, view: Any) -> None:
        name = f"{view.__module__}.{view.__qualname__}"
        one = limited("1000000/s", timeout=10)(view)
        assert ask(one)["RateLimit"].startswith(f'"{name}"')
        assert (one.__name__, one.__doc__) == (view.__name__, view.__doc__)

    def test_each_user(self, view: Any) -> None:
        one = limited("1/day", name=secrets.token_hex(8), by="user", timeout=10)(view)
        for user, statuses in ((User(pk=1), [200, 429]), (User(pk=2), [200, 429])):
            request: Any = RequestFactory().get("/")
            request.user = user
            call = async_to_sync(one) if iscoroutinefunction(one) else one
            assert [call(request).status_code for _ in statuses] == statuses

    @pytest.mark.django_db
    def test_a_function_may_ask_the_database(self, view: Any) -> None:
        """In async code it has a thread."""

        def by(request: HttpRequest) -> str | None:
            return None if User.objects.exists() else request.META["REMOTE_ADDR"]

        one = limited(some_limit("1/day", by=by))(view)
        assert [ask(one).status_code for _ in range(2)] == [200, 429]
        User.objects.create(username="ann")
        answer = ask(one)
        assert (answer.status_code, "RateLimit" in answer) == (200, False)

    def test_an_answer_of_ones_own(self, view: Any) -> None:
        def refused(request: HttpRequest, taken: LimitResult) -> HttpResponse:
            return HttpResponse(f"{request.path} {taken.remaining}", status=420)

        one = limited(some_limit("1/day"), refused=refused)(view)
        ask(one)
        answer = ask(one)
        assert (answer.status_code, answer.content) == (420, b"/ 0")
        assert int(answer["Retry-After"]) > 60

    @pytest.mark.django_db(transaction=True)
    def test_an_answer_of_ones_own_may_be_waited_for(self) -> None:
        async def refused(request: HttpRequest, taken: LimitResult) -> HttpResponse:
            return HttpResponse(f"{await User.objects.acount()}", status=420)

        one = limited(some_limit("1/day"), refused=refused)
        view = one(waiting)
        ask(view)
        answer = ask(view)
        assert (answer.status_code, "Retry-After" in answer) == (420, True)
        with pytest.raises(ImproperlyConfigured, match="async, but the limited view isn't"):
            one(plain)

    def test_an_answer_for_all_tells_nothing(self) -> None:
        def shared(request: HttpRequest) -> HttpResponse:
            return HttpResponse(headers={"Cache-Control": "public, max-age=5"})

        assert "RateLimit" not in ask(limited(some_limit())(shared))


class TestNames:
    @pytest.mark.parametrize(
        "view", [lambda request: None, View.as_view(), View().dispatch, Limit.of]
    )
    def test_what_has_no_name_of_its_own(self, view: Any) -> None:
        with pytest.raises(ImproperlyConfigured, match="needs a name"):
            limited("1/day")(view)

    def test_methods_need_a_name(self) -> None:
        """Django calls them by that of their base class."""
        with pytest.raises(ImproperlyConfigured, match="needs a name"):
            method_decorator(limited("1/day"), name="dispatch")(type("Search", (View,), {}))
        named = limited("1/day", name=secrets.token_hex(8), timeout=10)

        @method_decorator(named, name="dispatch")
        class Search(View):
            def get(self, request: HttpRequest) -> HttpResponse:
                return HttpResponse("done")

        assert [ask(Search.as_view()).status_code for _ in range(2)] == [200, 429]

    def test_an_async_class_is_limited_as_a_view(self) -> None:
        class News(View):
            async def get(self, request: HttpRequest) -> HttpResponse:
                return HttpResponse("done")

        one = limited(some_limit("1/day"))(News.as_view())
        assert iscoroutinefunction(one)
        assert [ask(one).status_code for _ in range(2)] == [200, 429]

    @pytest.mark.parametrize("options", [{"name": "other"}, {"burst": 1}])
    def test_what_contradicts_a_limit(self, options: Any) -> None:
        with pytest.raises(ValueError, match="not to limited"):
            limited(some_limit("3/day"), **options)

    @pytest.mark.parametrize("cost", [4, 0, -1, 1.0, 1.5, True, "1", None])
    def test_a_cost_that_it_never_has(self, cost: Any) -> None:
        """It is said when the site starts, not by each request."""
        with pytest.raises(ValueError, match="never admits more"):
            limited(some_limit("3/day"), cost=cost)


@limited(some_limit("9/day"))
def missing(request: HttpRequest) -> HttpResponse:
    """Django makes the answer of what it raises, outside of it."""
    raise Http404


@limited(some_limit("9/day"))
async def forbidden(request: HttpRequest) -> HttpResponse:
    """The same in async code."""
    raise PermissionDenied


urlpatterns = [path("done", plain), path("404", missing), path("403", forbidden)]

# As people write it in a module of theirs.
site = limited(some_limit("2/day", by="user_or_address"))


@pytest.mark.django_db
@pytest.mark.parametrize("client", [Client, AsyncClient], ids=["sync", "async"])
def test_a_whole_site(client: type[Client] | type[AsyncClient]) -> None:
    """Also what no view answers."""
    login = "django.contrib.auth.middleware.AuthenticationMiddleware"
    sessions = "django.contrib.sessions.middleware.SessionMiddleware"
    found: list[HttpResponse] = []
    with override_settings(MIDDLEWARE=[sessions, login, f"{__name__}.site"]):
        one: Any = client(headers={"x": "y"})
        for _ in range(3):
            asked = one.get("/nothing/there", REMOTE_ADDR=f"{client.__name__}")
            found.append(asked if client is Client else async_to_sync(_once)(asked))
    assert [answer.status_code for answer in found] == [404, 404, 429]
    assert found[0]["RateLimit"].startswith(f'"{site.limit.name}";r=1')


@pytest.mark.parametrize("client", [Client, AsyncClient], ids=["sync", "async"])
@pytest.mark.parametrize("status", [404, 403])
def test_what_a_view_raises_is_told_outside_of_it(
    client: type[Client] | type[AsyncClient], status: int
) -> None:
    layers = ["django_counters.contrib.limits.tell_limits"]
    with override_settings(MIDDLEWARE=layers, ROOT_URLCONF=__name__):
        asked: Any = client().get(f"/{status}")
        answer = asked if client is Client else async_to_sync(_once)(asked)
        unlimited = Client().get("/done")
    assert (answer.status_code, "RateLimit" in answer) == (status, True)
    assert "RateLimit" not in unlimited


hooked: list[str] = []


def with_a_hook(get_response: Any) -> Any:
    """A middleware as a function that has a hook."""

    def middleware(request: HttpRequest) -> HttpResponse:
        answer: HttpResponse = get_response(request)
        return answer

    middleware.process_view = lambda request, *_: hooked.append(request.path)  # type: ignore[attr-defined]
    return middleware


def test_a_hook_of_the_middleware_within_is_called_once() -> None:
    layers = [f"{__name__}.site", f"{__name__}.with_a_hook"]
    with override_settings(MIDDLEWARE=layers, ROOT_URLCONF=__name__):
        answer = Client().get("/done", REMOTE_ADDR="hooks")
    assert (answer.status_code, hooked) == (200, ["/done"])


nameless = limited("2/day")


@pytest.mark.parametrize("inner", [[], ["django.middleware.common.CommonMiddleware"]])
def test_a_middleware_needs_a_name(inner: list[str]) -> None:
    with (
        override_settings(MIDDLEWARE=[f"{__name__}.nameless", *inner]),
        pytest.raises(ImproperlyConfigured, match="needs a name"),
    ):
        Client().get("/")


async def _once(asked: Any) -> Any:
    return await asked
