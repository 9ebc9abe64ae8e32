"""One mail that a stranger made unreadable does not break the list, and can be opened."""

from typing import Any

import pytest

from tests.support.people.office import Office, letter, office
from tools.mail.html.tags import TOO_COMPLEX
from tools.mail.message.lenient import MORE_ADDRESSES
from tools.reading import reads

__all__ = ["office"]
pytestmark = pytest.mark.django_db(transaction=True)

PARENTHESES = "(" * 2_700


def raw(office: Office, *lines: str, body: bytes = b"Hello\r\n") -> None:
    given = {line.partition(":")[0] for line in lines}
    usual = {
        "From": "m@x.example",
        "To": office.ada,
        "Subject": "hostile",
        "Message-ID": "<hostile@x.example>",
    }
    head = [*(f"{name}: {value}" for name, value in usual.items() if name not in given), *lines]
    office.imap.deliver(office.ada, "\r\n".join([*head, "", ""]).encode() + body)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(f"From: {PARENTHESES} m@x.example", id="from-parentheses"),
        pytest.param(f"To: {PARENTHESES}", id="to-parentheses"),
        pytest.param(f"Cc: {PARENTHESES} c@x.example", id="cc-parentheses"),
        pytest.param("Reply-To: " + "a:" * 2_700, id="reply-to-groups"),
        pytest.param("Subject: " + "=?utf-8?q?a?= " * 5_000, id="subject-words"),
        pytest.param("Subject: =?punycode?q?" + "a" * 9_000 + "?=", id="subject-codec"),
        pytest.param("Date: " + "1 " * 5_000, id="date"),
        pytest.param("Content-Type: text/plain" + ';"' * 4_000, id="parameters"),
        pytest.param("References: " + "<a@b>" * 20_000, id="references"),
    ],
)
def test_hostile_header_breaks_no_list(office: Office, line: str) -> None:
    office.receive(letter(to=office.ada, subject="harmless"))
    raw(office, line)

    cards = office.tool("list_emails")["emails"]

    assert {"harmless"} < {card["subject"] for card in cards}
    hostile = next(card["id"] for card in cards if card["subject"] != "harmless")
    assert office.tool("read_email", message_id=hostile)["body"].strip() == "Hello"
    assert office.tool("read_thread", message_id=hostile)["messages"]


def message_of(office: Office) -> dict[str, Any]:
    (card,) = office.tool("list_emails")["emails"]
    return office.tool("read_email", message_id=card["id"])


def test_open_parentheses_hide_no_address(office: Office) -> None:
    raw(office, f"Cc: {PARENTHESES} c@x.example")
    assert message_of(office)["cc"] == ["c@x.example"]


def test_addresses_beyond_the_limit_are_marked_not_answered(office: Office) -> None:
    everybody = ",\r\n ".join(f"somebody{number}@company.example" for number in range(3_000))
    raw(office, f"To: {everybody}")
    message = message_of(office)
    assert message["to"][-1].startswith("… and")

    problem = office.refused(
        "reply_email", message_id=message["id"], comment="Hi", reply_all=True, confirm=True
    )

    assert problem["code"] == "invalid_input"
    assert (
        MORE_ADDRESSES
        not in office.tool("reply_email", message_id=message["id"], comment="Hi")["preview"]["to"]
    )


def test_mail_that_asks_for_too_many_answers_gets_none(office: Office) -> None:
    many = [f"somebody{number}@company.example" for number in range(1_001)]
    raw(office, f"Reply-To: {', '.join(many[:500])}", f"Cc: {', '.join(many[500:])}")
    message_id = message_of(office)["id"]

    for tool, words in (("reply_email", "comment"), ("draft_reply", "body")):
        asked = {"message_id": message_id, words: "Hi"}
        assert office.refused(tool, **asked, reply_all=True)["code"] == "invalid_input"
    asked = {"message_id": message_id, "comment": "Hi"}
    assert office.tool("reply_email", **asked)["preview"]["to"] == many[:500]


def test_text_in_a_codec_that_is_no_charset_is_readable(office: Office) -> None:
    raw(office, "Content-Type: text/plain; charset=punycode", body=b"plain words " * 20_000)
    assert message_of(office)["body"].startswith("plain words")


@pytest.mark.parametrize("size", [100, 30_000], ids=["small", "large"])
@pytest.mark.parametrize("token", ["<![", "<!", "<div>", "&#x", "<table><tr><td>"])
def test_hostile_html_of_an_agent_is_no_server_error(office: Office, token: str, size: int) -> None:
    body = (token * size)[:99_000] + "words"
    for tool in ("send_email", "create_draft"):
        answer = office.api.tool(
            tool, to=[office.mira], subject="x", body=body, body_type="html", confirm=True
        )
        assert answer.status_code in (200, 202, 422), answer.content


def test_rest_of_a_thread_is_bare_text_when_its_time_is_over(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        raw(
            office,
            f"Message-ID: <{number}@x.example>",
            "References: <0@x.example>",
            "Content-Type: text/html; charset=utf-8",
            body=f"<p>mail {number}</p>\r\n".encode() + b"<b></b>\r\n" * 1_000,
        )
    newest = office.tool("list_emails", max_results=1)["emails"][0]["id"]

    def read() -> set[str]:
        messages = office.tool("read_thread", message_id=newest)["messages"]
        return {" ".join(each["body"].split()) for each in messages}

    assert read() == {f"mail {n}" for n in range(3)}
    monkeypatch.setattr(reads, "THREAD_SECONDS", 0)
    assert read() == {f"{TOO_COMPLEX} mail {n}" for n in range(3)}


PARTS = b"".join(
    b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (place, place)
    for place in range(40)
)


@pytest.mark.parametrize("kind", ["message/partial; number=1", "message/rfc822"])
def test_mail_inside_mail_without_end_can_be_read(office: Office, kind: str) -> None:
    inside = f"Content-Type: {kind}\r\n\r\n".encode()
    raw(office, f"Content-Type: {kind}", body=(PARTS + inside) * 30 + PARTS + b"\r\nHello\r\n")

    assert any("nested deeper than" in note for note in message_of(office)["notes"])


FILE = b'--b\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename="a.pdf"\r\n\r\na\r\n'
TEXT = b"--b\r\nContent-Type: text/plain\r\n\r\nHello\r\n"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(TEXT + FILE * 100, 200, id="100 files"),
        pytest.param(FILE * 101, 413, id="101 files"),
        pytest.param(TEXT * 1_001 + FILE, 413, id="a file that is not listed"),
    ],
)
def test_mail_with_too_many_files_is_not_forwarded(
    office: Office, body: bytes, status: int
) -> None:
    """Each file is read by itself, so a thousand took minutes; those beyond were lost silently."""
    raw(office, 'Content-Type: multipart/mixed; boundary="b"', body=body + b"--b--\r\n")
    original = message_of(office)["id"]

    answer = office.api.tool("forward_email", message_id=original, to=["mira@northwind.example"])

    assert answer.status_code == status
    if status == 200:
        assert len(answer.json()["preview"]["attachments"]) == 100
