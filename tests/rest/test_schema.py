"""The schema of the API: the file is what the code says, and disturbs nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from django.core.management import call_command
from django.urls import include, path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from django_counters.rest.urls import urlpatterns
from tests.rest.schema import PATH, written

OURS = [one for one in urlpatterns if one.callback.__module__.startswith("django_counters")]


def generated(folder: Path, urls: str) -> dict[str, Any]:
    """What a project generates; a warning is an error."""
    file = folder / "schema.yaml"
    call_command(
        *("spectacular", "--urlconf", urls, "--file", str(file)), "--validate", "--fail-on-warn"
    )
    found: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found


def operations(found: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for methods in found["paths"].values():
        yield from methods.items()


def operation_id(route: Any) -> str:
    return f"counters_{route.name.replace('-', '_')}"


def test_the_file_is_what_the_code_says() -> None:
    assert PATH.read_text(encoding="utf-8") == written(), "run python -m tests.rest.schema"


def test_a_project_generates_it_without_warnings(tmp_path: Path) -> None:
    found = generated(tmp_path, "tests.rest.urls")

    names = {operation["operationId"] for _, operation in operations(found)}
    assert names == {operation_id(route) for route in OURS}
    # Beacons need no login, and what is for anyone; two people who adjust do.
    people = {"adjust", "requests", "request", "approve", "reject"}
    for _, operation in operations(found):
        needs_login = operation["operationId"] in {f"counters_{name}" for name in people}
        assert ({} in operation["security"]) is not needs_login
        assert operation["summary"]


class ProblemSerializer(serializers.Serializer[Any]):
    """Of a project, which has names of its own."""

    consistency = serializers.ChoiceField(choices=["firm", "soft"])
    by = serializers.ChoiceField(choices=["train", "bus"])
    type = serializers.ChoiceField(choices=["a", "b"])
    source = serializers.ChoiceField(choices=["well", "tap"])  # type: ignore[assignment]


class TheirView(APIView):
    """Answers with a problem of the project."""

    serializer_class = ProblemSerializer

    def get(self, request: Request) -> Response:
        return Response({})


urlpatterns = [path("theirs", TheirView.as_view()), path("ours/", include("tests.rest.urls"))]


def test_names_of_a_project_stay_its_own(tmp_path: Path) -> None:
    components = generated(tmp_path, __name__)["components"]["schemas"]

    theirs = {name for name in components if not name.startswith("Counter")}
    assert theirs == {"Problem", "ConsistencyEnum", "ByEnum", "TypeEnum", "SourceEnum"}
    assert components["ConsistencyEnum"]["enum"] == ["firm", "soft"]
