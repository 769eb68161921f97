"""Over HTTPS a region talks to whom its machine trusts, and to nobody else.

``localhost.pem`` is a certificate of localhost with its key, for this test alone, for 200 years.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_counters.peers.peer import PeerAway
from tests.peers.between import eu_asks
from tests.peers.serving import over_http

pytestmark = [
    pytest.mark.django_db(databases=["default", "other"]),
    pytest.mark.usefixtures("keeps_regions"),
]
CERTIFICATE = Path(__file__).with_name("localhost.pem")


@pytest.fixture(name="address")
def _address(db: None) -> Iterator[str]:
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(CERTIFICATE)
    with over_http(secure=secure) as address:
        yield address.replace("http://127.0.0.1", "https://localhost")


def test_a_certificate_that_is_trusted(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    assert eu_asks(address).marks("eu") == {}
    with pytest.raises(PeerAway, match="mismatch"):
        eu_asks(address.replace("localhost", "127.0.0.1")).marks("eu")


def test_a_certificate_that_nobody_knows(address: str) -> None:
    with pytest.raises(PeerAway, match="certificate verify failed"):
        eu_asks(address).marks("eu")


def test_who_does_not_speak_it() -> None:
    with over_http() as address, pytest.raises(PeerAway, match="SSL"):
        eu_asks(address.replace("http:", "https:")).marks("eu")
