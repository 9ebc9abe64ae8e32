"""The start refuses plain-text addresses of other servers, and closes files others can read."""

import stat
from base64 import b64encode
from pathlib import Path

import pytest

from mailhub.environment import Environment, load
from tests.support.processes.programs import manage

KEYS = {"SECRET_KEY": "s" * 40, "MAILHUB_ENCRYPTION_KEYS": b64encode(b"k" * 32).decode()}
# Variables with other schemes and rules: the address of this server, the stores behind it, and a
# model server in the private network.
OTHERS = {
    "MAILHUB_PUBLIC_URL",
    "DATABASE_URL",
    "REDIS_URL",
    "CELERY_BROKER_URL",
    "EMAIL_URL",
    "OPENAI_BASE_URL",
}
OUTGOING = sorted(
    name
    for name in Environment.model_fields
    if name.rpartition("_")[2] in ("URL", "URI", "ISSUER", "ENDPOINT", "AUTHORITY")
    and name not in OTHERS
)
IN_THE_CLEAR = [
    "http://graph.example",
    "http://127.0.0.1.evil.example",
    "http://localhost.evil.example",
    "http://localhost@evil.example",
    "http://127.0.0.1@evil.example/",
    "http://[::ffff:203.0.113.7]",
    "ftp://127.0.0.1",
    "https://",
    "//graph.example",
]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    for name in Environment.model_fields:
        monkeypatch.delenv(name, raising=False)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MAILHUB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OIDC_CLIENT_ID", "id")
    monkeypatch.setenv("OIDC_CLIENT_SECRET", "secret")
    return monkeypatch


def test_every_outgoing_address_is_known_to_this_test() -> None:
    assert {"OIDC_ISSUER", "GRAPH_BASE_URL", "GMAIL_BASE_URL", "MICROSOFT_AUTHORITY"} <= set(
        OUTGOING
    )


def test_model_server_in_a_private_network_can_be_plain(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("OPENAI_BASE_URL", "http://ollama:11434/v1")
    assert load().OPENAI_BASE_URL == "http://ollama:11434/v1"


@pytest.mark.parametrize("url", IN_THE_CLEAR)
@pytest.mark.parametrize("name", OUTGOING)
def test_unencrypted_outgoing_address_is_refused(
    bare: pytest.MonkeyPatch, name: str, url: str
) -> None:
    bare.setenv(name, url)
    with pytest.raises(SystemExit) as stopped:
        load()
    assert f" {name}: " in str(stopped.value.code)


@pytest.mark.parametrize(
    "url", ["https://good.example", "http://localhost:81", "http://127.0.0.9:81", "http://[::1]:81"]
)
@pytest.mark.parametrize("name", sorted(set(OUTGOING) - {"MICROSOFT_AUTHORITY"}))
def test_outgoing_address_on_loopback_can_be_plain(
    bare: pytest.MonkeyPatch, name: str, url: str
) -> None:
    bare.setenv(name, url)
    assert getattr(load(), name).startswith(url)


def test_existing_open_files_of_a_home_become_private(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    (home / "audit-heads.jsonl").touch(mode=0o644)
    (home / "audit-heads.jsonl").chmod(0o644)

    # The tables of one app are enough for a database, and take half the time of all.
    done = manage(home, "migrate", "contenttypes", "--verbosity=0", **KEYS)

    assert done.returncode == 0, done.stderr
    made = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in home.iterdir() if path.is_file()
    }
    assert "mailhub.sqlite3" in made
    assert made == dict.fromkeys(made, 0o600)
