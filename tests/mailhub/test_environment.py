"""Valid values of the environment: a wrong or missing value ends the start with one line that names
it.
"""

import json
import re
import stat
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from mailhub.environment import Environment, load, prepare_home
from mailhub.environment.home import env_file, process_name
from tests.support.processes.programs import PROJECT, manage, run
from tests.support.processes.template import KEYS

SETTINGS = {"DJANGO_SETTINGS_MODULE": "mailhub.settings", "PYTHONPATH": PROJECT}
LIMITS = {"connect_timeout": 10, "keepalives": 1, "tcp_user_timeout": 60_000}
SETTING = re.compile(r"#?\s?([A-Z][A-Z0-9_]+)=(.*)")


WRONG = [
    ("PORT", "eighty"),
    ("PORT", "70000"),
    ("SECRET_KEY", "short"),
    ("SECRET_KEY", ""),
    ("MAILHUB_ENCRYPTION_KEYS", "not base64!"),
    ("MAILHUB_ENCRYPTION_KEYS", b64encode(b"too short").decode()),
    ("MAILHUB_QUEUE", "carrier-pigeon"),
    ("MAILHUB_PUBLIC_URL", "mailhub.example"),
    ("DATABASE_URL", "mysqlite://nowhere"),
    ("DATABASE_URL", "postgres://mailhub:pass#word@db.example/mailhub"),
    ("MAILHUB_LEASE_SECONDS", "1"),
    ("GMAIL_BASE_URL", "http://gmail.example"),
    ("EMAIL_URL", "mail.example"),
    ("EMAIL_URL", "smtp://mail.example:70000"),
    ("EMAIL_URL", "smtp://mailhub:secret@mail.example"),
    ("DEFAULT_FROM_EMAIL", "a.person"),
    ("GOOGLE_TOKEN_URI", "ftp://127.0.0.1/token"),
    ("MAILHUB_CORS_ORIGINS", "*"),
    ("MAILHUB_LOOPBACK_SERVERS", "10.0.0.1:993"),
    ("MAILHUB_LOOPBACK_SERVERS", "localhost:993"),
    ("MAILHUB_LOOPBACK_SERVERS", "127.0.0.2"),
    ("MAILHUB_CORS_ORIGINS", "https://app.example/path"),
    ("MAILHUB_CORS_ORIGINS", "app.invalid"),
]
WIKI = {"name": "wiki", "url": "https://wiki.example/mcp", "read": ["find"]}
WRONG_SERVERS: list[tuple[object, str]] = [
    ("[", "is not JSON"),
    ({}, "list"),
    ([WIKI | {"url": "wiki.example"}], "must be an address"),
    ([WIKI | {"url": "https://me:word@wiki.example/mcp"}], "without user name"),
    ([WIKI | {"url": "http://wiki.example/mcp", "secret": "word"}], "must start with https://"),
    ([WIKI | {"secret": "two words"}], "one word"),
    ([WIKI | {"secret_file": "/nowhere/secret"}], "cannot be read"),
    ([WIKI | {"name": "Wiki_1"}], "begin with a letter"),
    ([WIKI | {"write": ["find"]}], "each once"),
    ([WIKI | {"read": ["a.b", "a_b"]}], "each once"),
    ([WIKI | {"read": []}], "needs the names of tools"),
    ([WIKI | {"read": ["x" * 40]}], "cannot be offered"),
    ([WIKI | {"raed": ["find"]}], "raed"),
    ([WIKI, WIKI], "a name of its own"),
]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Unset our variables, except for the home, which is empty."""
    for name in Environment.model_fields:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"{name}_FILE", raising=False)
    monkeypatch.setenv("MAILHUB_HOME", str(tmp_path / "home"))
    return monkeypatch


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_invalid_value_stops_the_start_with_one_line(
    bare: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """Treat an empty value as missing."""
    for each, given in (KEYS | {name: value}).items():
        bare.setenv(each, given)
    with pytest.raises(SystemExit) as stopped:
        load()
    assert isinstance(stopped.value.code, str)
    (line,) = stopped.value.code.splitlines()
    assert f" {name}: " in line
    assert not value or value not in line, "what was given may be a secret"


@pytest.mark.parametrize(("value", "says"), WRONG_SERVERS)
def test_wrong_server_of_the_chat_stops_the_start(
    bare: pytest.MonkeyPatch, value: object, says: str
) -> None:
    given = value if isinstance(value, str) else json.dumps(value)
    for each, text in (KEYS | {"AGENT_MCP_SERVERS": given}).items():
        bare.setenv(each, text)
    with pytest.raises(SystemExit) as stopped:
        load()
    (line,) = str(stopped.value.code).splitlines()
    assert line.startswith("mailhub cannot start: AGENT_MCP_SERVERS")
    assert says in line
    assert "word" not in line.replace("one word", "")


def test_servers_of_the_chat_are_read_from_a_file(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("word\n")
    path = tmp_path / "servers.json"
    path.write_text(json.dumps([WIKI | {"secret_file": str(tmp_path / "secret")}]))
    for each, text in (KEYS | {"AGENT_MCP_SERVERS_FILE": str(path)}).items():
        bare.setenv(each, text)
    (server,) = load().AGENT_MCP_SERVERS
    assert (server.read, server.headers) == (("find",), {"Authorization": "Bearer word"})


@pytest.mark.parametrize(
    ("name", "value", "harmless", "says"),
    [
        ("MAILHUB_CONTENT_STORE", "s3", "database", "move_content"),
        ("MAILHUB_S3_BUCKET", "s3", "", "move_content"),
        ("MAILHUB_AUDIT_RETENTION_DAYS", "365", "0", "keep the files of the archive"),
        ("MAILHUB_AUDIT_ARCHIVE", "/srv/audit", "", "keep the files of the archive"),
    ],
)
def test_setting_that_is_gone_stops_the_start(
    bare: pytest.MonkeyPatch, name: str, value: str, harmless: str, says: str
) -> None:
    for each, given in (KEYS | {name: harmless}).items():
        bare.setenv(each, given)
    load()
    bare.setenv(name, value)
    with pytest.raises(SystemExit, match=f"{name}: is gone.*{says}"):
        load()


@pytest.mark.process
def test_each_command_stops_and_names_all_errors_at_once(tmp_path: Path) -> None:
    done = manage(tmp_path, "check", PORT="eighty", MAILHUB_QUEUE="carrier-pigeon")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    for name in ("PORT", "MAILHUB_QUEUE", "SECRET_KEY", "MAILHUB_ENCRYPTION_KEYS"):
        assert f" {name}: " in line


def test_missing_secrets_file_is_named(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("SECRET_KEY_FILE", "/nowhere/secret")
    with pytest.raises(SystemExit) as stopped:
        load()
    assert "/nowhere/secret" in str(stopped.value.code)


def printed_by_settings(home: Path, expression: str, **changes: object) -> str:
    """Return what a process prints of its settings; it does not start Django, which takes longer."""
    says = f"import json; from django.conf import settings; print({expression})"
    done = run([sys.executable, "-c", says], home, {**KEYS, **SETTINGS, **changes}, "")
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.process
def test_secret_can_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("f" * 40 + "\n")
    given = {"SECRET_KEY": "", "SECRET_KEY_FILE": "secret"}
    assert printed_by_settings(tmp_path, "settings.SECRET_KEY", **given) == "f" * 40


@pytest.mark.parametrize(
    ("given", "kept", "bounded"),
    [
        ("", {"prepare_threshold": 5}, True),
        (
            "?sslmode=verify-full&prepare_threshold=7",
            {"sslmode": "verify-full", "prepare_threshold": 7},
            False,
        ),
    ],
)
def test_silent_network_does_not_hold_postgresql_for_ever(
    tmp_path: Path, given: str, kept: dict[str, Any], bounded: bool
) -> None:
    """Set no timeout of statements for a pooler, which the threshold reveals: it takes no parameter
    of the server at the start.
    """
    url = f"postgres://mailhub@db.example/mailhub{given}"
    stored = printed_by_settings(
        tmp_path, "json.dumps(settings.DATABASES['default']['OPTIONS'])", DATABASE_URL=url
    )
    options = json.loads(stored)
    assert options.pop("pool")
    assert ("statement_timeout" in options.get("options", "")) is bounded
    assert options.items() >= {**LIMITS, **kept}.items()


def test_keys_of_a_home_are_stable_and_private(tmp_path: Path, bare: pytest.MonkeyPatch) -> None:
    # This process stays, and would keep it.
    bare.setattr("mailhub.environment.lock_home", lambda home: None)
    prepare_home()
    path = env_file(tmp_path / "home")
    first = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    prepare_home()
    assert path.read_text() == first
    bare.setenv("MAILHUB_HOME", str(tmp_path / "other"))
    prepare_home()
    assert "SECRET_KEY" in first
    assert not set(first.splitlines()[1:3]) & set(
        env_file(tmp_path / "other").read_text().splitlines()
    )


def test_example_lists_every_variable_with_its_default() -> None:
    """Expect a comment, then name and default. The value is empty if the default is empty or made
    at the first start.
    """
    found: dict[str, tuple[str, str]] = {}
    comment = ""
    for line in (PROJECT / ".env.example").read_text().splitlines():
        if match := SETTING.fullmatch(line):
            assert match[1] not in found, f"{match[1]} stands there twice"
            found[match[1]] = (comment, match[2])
        comment = line.removeprefix("# ") if line.startswith("# ") else ""
    assert found == {
        name: (str(field.description), shown(field.default))
        for name, field in Environment.model_fields.items()
    }


def shown(default: object) -> str:
    if isinstance(default, bool):
        return str(int(default))
    return str(default) if isinstance(default, int | str | Path) else ""


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["/opt/mailhub/manage.py", "worker", "--threads=4"], "mailhub worker"),
        (["manage.py"], "mailhub"),
        (["/venv/bin/celery", "-A", "mailhub"], "mailhub celery"),
    ],
)
def test_connection_is_named_by_its_process(arguments: list[str], name: str) -> None:
    assert process_name(arguments) == name
