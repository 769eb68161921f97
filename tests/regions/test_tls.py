"""Over HTTPS a region talks to whom its machine trusts, and to nobody else."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_counters.contrib.regions.marks import PeerAway
from tests.regions.between import eu_asks
from tests.regions.serving import over_http

pytestmark = [
    pytest.mark.django_db(databases=["default", "other"]),
    pytest.mark.usefixtures("keeps_regions"),
]


@pytest.fixture(name="certificate", scope="module")
def _certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of localhost and its key, in one file."""
    if not shutil.which("openssl"):
        pytest.skip("needs the openssl command, to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", "key", "-out", "certificate"]
    subprocess.run([*make.split(), *names, *files], cwd=folder, check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_text((folder / "key").read_text() + (folder / "certificate").read_text())
    return both


@pytest.fixture(name="address")
def _address(db: None, certificate: Path) -> Iterator[str]:
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(certificate)
    with over_http(secure=secure) as address:
        yield address.replace("http://127.0.0.1", "https://localhost")


def test_a_certificate_that_is_trusted(
    address: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert eu_asks(address).marks("eu") == {}
    with pytest.raises(PeerAway, match="mismatch"):
        eu_asks(address.replace("localhost", "127.0.0.1")).marks("eu")


def test_a_certificate_that_nobody_knows(address: str) -> None:
    with pytest.raises(PeerAway, match="certificate verify failed"):
        eu_asks(address).marks("eu")


def test_who_does_not_speak_it() -> None:
    with over_http() as address, pytest.raises(PeerAway, match="SSL"):
        eu_asks(address.replace("http:", "https:")).marks("eu")
