"""The schema of the API: the file is what the code says, and disturbs nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.urls import include, path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from django_counters.rest import bodies, problems
from django_counters.rest.describing import OPERATIONS, PROBLEMS, Operation
from tests.rest.schema import PATH, document, written

REFUSED = {"origin", "in-progress", "length-required", "too-large", "unsupported"}
each_operation = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=list(OPERATIONS))


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


def test_the_file_is_what_the_code_says() -> None:
    assert PATH.read_text(encoding="utf-8") == written(), "run python -m tests.rest.schema"


def test_a_project_generates_it_without_warnings(tmp_path: Path) -> None:
    found = generated(tmp_path, "tests.rest.urls")

    names = {operation["operationId"] for _, operation in operations(found)}
    assert names == {f"counters_{name}" for name in OPERATIONS}
    assert all(operation["security"] for _, operation in operations(found))


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


def test_bodies_take_no_other_fields() -> None:
    components = document()["components"]["schemas"]

    sent = {name: found for name, found in components.items() if name.endswith("Body")}
    assert len(sent) == 5
    assert [name for name, found in sent.items() if found["additionalProperties"]] == []
    assert components["CounterChangeBody"]["properties"]["by"]["default"] == 1


@each_operation
def test_an_example_is_one(operation: Operation) -> None:
    answer = operation.answer(data=operation.example)
    assert answer.is_valid(), answer.errors
    assert set(operation.example) == set(answer.fields)
    if operation.body:
        body = operation.body(data=operation.sent)
        assert body.is_valid(), body.errors


def test_each_problem_is_described_where_it_is_answered() -> None:
    described = {(status, name) for status, found in PROBLEMS.items() for name in found.types}
    raised = {(kind.status, kind.name) for kind in problems._KINDS.values()}

    assert raised <= described
    assert {name for _, name in described - raised} <= REFUSED


def test_what_a_problem_tells_is_described() -> None:
    told = {name for kind in problems._KINDS.values() for name in kind.data}

    assert told <= set(bodies.Problem().fields)


def test_only_what_changes_may_be_unknown() -> None:
    for method, operation in operations(document()):
        answers = operation["responses"]
        sent = {found["name"] for found in operation.get("parameters", ())}
        changes = "Idempotency-Key" in sent
        assert changes == ("504" in answers)
        assert changes == ("Idempotent-Replayed" in answers["200"]["headers"])
        assert ("requestBody" in operation) == (method == "post") == ("415" in answers)
        assert "405" not in answers
