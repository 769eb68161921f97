"""The API of the example: passwords that are not guessed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.test import Client

from example_project import api, seeds

pytestmark = pytest.mark.django_db


def test_passwords_are_not_guessed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.Guesses, "limit", replace(api.Guesses.limit, rate="2/min"))
    seeds.add_demo_users()
    wrong = {"username": "clerk", "password": "wrong"}
    tried = [client.post("/api/token/", wrong).status_code for _ in range(3)]
    assert tried == [401, 401, 429]
