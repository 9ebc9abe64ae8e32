"""A model gets a few fields of a command's output, and no secret in it."""

import json

import pytest

from tests.support.growth import check_growth
from tools.m365.reduce import reduce_output
from tools.mail.text.redaction import redact


def test_status_keeps_account_and_cloud() -> None:
    raw = json.dumps(
        {
            "connectedAs": "ada@lovelace.example",
            "cloudType": "Public",
            "accessToken": "x",
            "more": [1],
        }
    )
    assert json.loads(reduce_output("status", raw)) == {
        "connectedAs": "ada@lovelace.example",
        "cloudType": "Public",
    }
    assert reduce_output("status", '"Logged out"') == '"Logged out"'


def test_new_event_is_echoed() -> None:
    event = {
        "id": "e1",
        "subject": "Talk",
        "start": {"dateTime": "2026-11-22T16:00:00"},
        "end": "2026-11-22T17:00:00",
        "attendees": [{}, {}],
        "body": {"content": "x" * 9000},
    }
    assert json.loads(reduce_output("outlook event add", json.dumps(event))) == {
        "id": "e1",
        "subject": "Talk",
        "start": "2026-11-22T16:00:00",
        "end": "2026-11-22T17:00:00",
        "attendees": 2,
    }


@pytest.mark.parametrize(
    "raw", ["x" * 9000, json.dumps([{"name": "x" * 9000}]), json.dumps("x" * 9000)]
)
def test_other_output_is_cut_at_4000_characters_with_a_mark(raw: str) -> None:
    short = reduce_output("teams team list", raw)
    assert len(short) == 4000 + len(" …[truncated]")
    assert short.endswith(" …[truncated]")


@pytest.mark.parametrize("command", ["status", "outlook event add"])
@pytest.mark.parametrize(
    "raw", ["[]", "{}", "null", "[1, null]", '[{"from": 3}]', '{"start": 3}', "oops", ""]
)
def test_unknown_output_is_passed_on_shortened(command: str, raw: str) -> None:
    assert len(reduce_output(command, raw)) <= 120


def test_no_reducer_lets_a_huge_field_through() -> None:
    huge = {"id": "i" * 2_000_000, "subject": "s" * 2_000_000, "connectedAs": "c" * 2_000_000}
    for command in ("status", "outlook event add"):
        assert len(reduce_output(command, json.dumps(huge))) <= 4020


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("hunter22", '{"password": "hunter22", "id": 1}'),
        ("hunter22", "{'clientSecret': 'hunter22'}"),
        ("hunter22", '{"json": "{\\"refresh_token\\": \\"hunter22\\"}"}'),
        ("hunter22", "client_secret=hunter22&x=1"),
        ("hunter22", "m365 entra user add --password hunter22x".replace("hunter22x", '"hunter22"')),
        ("abcdefghijklmnop1234", "Authorization: Bearer abcdefghijklmnop1234"),
        ("eyJhbGciOiJSUzI1NiJ9", "token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0x.c2lnbmF0dXJl end"),
        ("mh_0123456789abcdefghij", "use mh_0123456789abcdefghij for it"),
        ("MIIEvQ", "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----"),
        ("sk-0123456789abcdefgh", "key sk-0123456789abcdefgh"),
    ],
)
def test_tokens_and_secrets_are_masked(secret: str, text: str) -> None:
    assert secret not in redact(text)
    assert "[redacted]" in redact(text)


def test_json_stays_json_and_ids_and_words_stay() -> None:
    masked = redact(
        '{"password": "a \\"quoted\\" one", "appId": "31359c7f-bd7e-475c-86db-fdb8c937548e", "n": 1}'
    )
    assert json.loads(masked) == {
        "password": "[redacted]",
        "appId": "31359c7f-bd7e-475c-86db-fdb8c937548e",
        "n": 1,
    }
    for harmless in (
        "The secret of good coffee is water.",
        "Reset your password today.",
        "https://x.example/?a=1",
    ):
        assert redact(harmless) == harmless


@pytest.mark.parametrize(
    "piece", ["a-", "eyJ-", "secret", '"password": "', "bearer ", "-----BEGIN PRIVATE KEY-----"]
)
def test_no_text_makes_masking_slow(piece: str) -> None:
    """Mask texts that would take minutes with a quadratic pattern."""
    check_growth(lambda size: redact(piece * (size // len(piece))), 100_000)
    check_growth(
        lambda size: reduce_output("teams team list", piece * (size // len(piece))), 2_000_000
    )
