"""gmail_get_message and the common reading tools on a Gmail mailbox."""

import base64
import time
from typing import Any

import pytest

from tests.conftest import Api, problem_of
from tests.support.concurrently import all_at_once
from tests.support.people.gmail import ADA, arrived, gmail, letter, mailbox
from tests.support.processes.programs import until
from tests.support.servers.gmail import GmailServer
from tools.mail.message import reading
from tools.providers.base import READ_LIMIT
from tools.providers.errors import Unavailable
from tools.providers.gmail import GmailProvider, payload
from tools.providers.gmail.client import GmailClient

__all__ = ["gmail", "mailbox"]
pytestmark = pytest.mark.django_db


def result(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


HTML = b"""From: Mei <mei@lotus.example>\r\nTo: ada@lovelace.example\r\nSubject: =?utf-8?b?5pyI5oql?=\r\n\
Date: Mon, 02 Nov 2026 10:00:00 +0000\r\nMIME-Version: 1.0\r\nContent-Type: text/html; charset=gb18030\r\n\
Content-Transfer-Encoding: base64\r\n\r\n""" + base64.encodebytes(
    '<p>你好世界</p><p style="display:none">obey</p><script>x</script>'.encode("gb18030")
)


def test_full_message_has_headers_text_and_cleaned_html(api: Api, gmail: GmailServer) -> None:
    stored = gmail.deliver(ADA, HTML)
    found = result(api.tool("gmail_get_message", message_id=stored.id))
    assert found == {
        "id": stored.id,
        "thread_id": stored.thread,
        "snippet": found["snippet"],
        "headers": {
            "From": "Mei <mei@lotus.example>",
            "To": ADA,
            "Subject": "月报",
            "Date": "Mon, 02 Nov 2026 10:00:00 +0000",
        },
        "body_text": found["body_text"],
        "body_html": "<p>你好世界</p>",
        "hidden_text_removed": True,
        "notes": ["Hidden text was left out: 4 characters."],
    }
    assert found["body_text"].strip() == "你好世界"


@pytest.mark.parametrize("name", ["fmt", "format"])
def test_metadata_is_headers_and_snippet(api: Api, gmail: GmailServer, name: str) -> None:
    stored = gmail.deliver(
        ADA, letter("Plain", text="The body.\n", Cc="x@y.example", Message_ID="<1@y.example>")
    )
    found = result(api.tool("gmail_get_message", message_id=stored.id, **{name: "metadata"}))
    assert set(found) == {"id", "thread_id", "headers", "snippet"}
    assert found["snippet"] == "The body."
    assert set(found["headers"]) == {"From", "To", "Subject", "Date", "Cc", "Message-ID"}
    assert gmail.calls[-1].one("format") == "metadata"


@pytest.mark.parametrize("fmt", ["full", "metadata"])
def test_missing_headers_are_empty(api: Api, gmail: GmailServer, fmt: str) -> None:
    stored = gmail.deliver(ADA, b"X-Nothing: here\r\n\r\nbody\r\n")
    found = result(api.tool("gmail_get_message", message_id=stored.id, fmt=fmt))
    assert found["headers"] == {"From": "", "To": "", "Subject": "", "Date": ""}


def test_long_body_comes_in_pieces(api: Api, gmail: GmailServer) -> None:
    text = "".join(f"{number} " for number in range(3000)).strip()
    stored = gmail.deliver(ADA, letter(text=text))
    first = result(api.tool("gmail_get_message", message_id=stored.id, max_chars=9000))
    assert first["truncated"] == {"next_offset": 9000, "total_chars": len(text)}
    rest = result(api.tool("gmail_get_message", message_id=stored.id, max_chars=9000, offset=9000))
    assert first["body_text"] + rest["body_text"] == text
    assert "truncated" not in rest


@pytest.mark.parametrize(
    ("message_id", "code"),
    [
        pytest.param("", "invalid_input", id="empty"),
        pytest.param("1234", "invalid_input", id="too-short"),
        pytest.param("nonexistent_12345", "not_found", id="unknown"),
        pytest.param("18cffffffffffff", "not_found", id="unknown-and-well-formed"),
        pytest.param("../../etc", "not_found", id="path"),
        pytest.param("a\r\nX: y", "not_found", id="lines"),
    ],
)
def test_unknown_id_is_reported_with_advice(
    api: Api, gmail: GmailServer, message_id: str, code: str
) -> None:
    problem = problem_of(api.tool("gmail_get_message", message_id=message_id))
    assert problem["code"] == code
    if code == "not_found":
        assert "Check message_id" in problem["detail"]
    else:
        assert gmail.calls == []


def test_unknown_format_is_refused_before_gmail_is_asked(api: Api, gmail: GmailServer) -> None:
    problem = problem_of(api.tool("gmail_get_message", message_id="18c0000000000001", fmt="raw"))
    assert (problem["code"], gmail.calls) == ("invalid_input", [])


def text_of(data: bytes, charset: str) -> str | None:
    """Return the text of a message that Gmail describes like this."""
    described = {
        "mimeType": "text/plain",
        "headers": [{"name": "Content-Type", "value": f"text/plain; charset={charset}"}],
        "body": {"size": len(data), "data": payload.encode_base64(data)},
    }
    return reading.read(payload.tree_of(described)).text


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        pytest.param("gb18030", "你好".encode(), "你好", id="utf-8-whatever-the-header-says"),
        pytest.param(
            "iso-2022-jp", "こんにちは".encode("iso-2022-jp"), "こんにちは", id="iso-2022-jp"
        ),
        pytest.param("koi8-r", "мир".encode("koi8-r"), "мир", id="koi8-r"),
        pytest.param("shift_jis", "日本".encode("shift_jis"), "日本", id="shift-jis"),
        pytest.param("x-none", "né".encode("latin-1"), "né", id="unknown-charset"),
        pytest.param("utf-8", b"caf\xe9 au lait", "café au lait", id="broken-utf-8"),
    ],
)
def test_text_is_read_in_any_charset(charset: str, data: bytes, text: str) -> None:
    assert text_of(data, charset) == text


@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1", ""])
@pytest.mark.parametrize("last", ["ü", "你", "😀"])
def test_cut_inside_a_character_loses_only_that_character(charset: str, last: str) -> None:
    text = "Grüße, 你好 " + "a" * (READ_LIMIT - len("Grüße, 你好 ".encode()) - 1)
    assert text_of(f"{text}{last} and more".encode(), charset) == text
    assert text_of(f"{text}.{last}".encode(), charset) == f"{text}."


@pytest.mark.parametrize("data", ["SGk_", "SGk/", "SGk", "SG k=\n", "%%%", ""])
def test_base64_is_read_with_and_without_its_padding(data: str) -> None:
    assert payload.decode_base64(data) in (b"Hi?", b"Hi", b"")


def test_large_text_stored_apart_by_gmail_is_fetched(api: Api, gmail: GmailServer) -> None:
    stored = gmail.deliver(ADA, letter(text="word " * 220_000))
    found = result(api.tool("read_email", message_id=stored.id))
    assert found["truncated"]["total_chars"] > READ_LIMIT // 2
    assert found["notes"] == ["The text was cut after 1,048,576 bytes."]
    assert gmail.requests() == {"messages.get": 2, "attachments.get": 1}


def test_card_has_letters_that_gmail_loses(api: Api, gmail: GmailServer) -> None:
    """Gmail keeps only the UTF-8 of headers that are not encoded; the source has them all."""
    plain = letter(text="Привет").replace(b"Subject: ", b"Subject: \xcf\xf0\xe8\xe2\xe5\xf2, ")
    gmail.deliver(ADA, plain)
    for found in (
        result(api.tool("list_emails"))["emails"],
        result(api.tool("gmail_search_messages", query="in:inbox"))["messages"],
    ):
        assert found[0]["subject"].startswith("Привет, ")


def test_reading_only_headers_fetches_no_body(api: Api, gmail: GmailServer) -> None:
    stored = gmail.deliver(ADA, letter(text="word " * 1000))
    result(api.tool("read_email", message_id=stored.id, format="metadata"))
    assert "body(size,attachmentId)" in gmail.calls[-1].one("fields")


@pytest.mark.goal("P10")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list_emails", {}),
        ("search_emails", {"query": "Number"}),
        ("list_emails", {"folder": "drafts"}),
    ],
)
def test_ten_rows_of_any_list_need_two_requests(
    api: Api, gmail: GmailServer, tool: str, arguments: dict[str, str]
) -> None:
    arrived(gmail, 10)
    for number in range(10):
        gmail.put_draft(ADA, letter(f"Draft {number}"))
    answer = api.tool(tool, **arguments)
    assert len(result(answer)["emails"]) == 10
    assert sum(gmail.requests().values()) == 2
    assert len(answer.content) <= 3300  # ids of drafts are longer than those of messages


@pytest.mark.goal("P10")
def test_no_more_than_three_requests_at_once_per_mailbox(gmail: GmailServer) -> None:
    stored = arrived(gmail, 8)
    token = gmail.access_token(ADA)
    client = GmailClient(
        token=lambda _: token, key="at once", base_url=gmail.url, answer_seconds=10
    )
    provider = GmailProvider(client)
    provider.read_message(stored[0].id, body=False)  # the library is loaded

    def meets_others(call: Any) -> None:
        until(lambda: gmail.most_at_once >= 3)
        time.sleep(0.05)  # a fourth one would come now

    gmail.before["messages.get"] = meets_others
    all_at_once([lambda one=one: provider.read_message(one.id, body=False) for one in stored])  # type: ignore[misc]
    assert gmail.most_at_once == 3


def test_rows_that_gmail_delays_are_requested_again(gmail: GmailServer) -> None:
    stored = arrived(gmail, 3)
    waits: list[float] = []
    token = gmail.access_token(ADA)
    client = GmailClient(
        token=lambda _: token, key=ADA, base_url=gmail.url, answer_seconds=10, sleep=waits.append
    )
    provider = GmailProvider(client)
    gmail.fail("messages.get", 429, "rateLimitExceeded", only=lambda call: call.id == stored[1].id)
    cards = provider.list_messages(folder="inbox", unread=None, limit=5, page_token=None).cards
    assert [card.id for card in cards] == [each.id for each in stored]
    assert (waits, gmail.count("batch")) == ([1.0], 2)

    gmail.fail("messages.get", 429, times=None, only=lambda call: call.id == stored[1].id)
    with pytest.raises(Unavailable) as caught:
        provider.list_messages(folder="inbox", unread=None, limit=5, page_token=None)
    assert caught.value.code == "rate_limited"


def test_long_list_requests_no_more_at_once_than_gmail_allows(api: Api, gmail: GmailServer) -> None:
    stored = arrived(gmail, 40)
    rows = result(api.tool("list_emails", max_results=40))["emails"]
    assert [row["id"] for row in rows] == [each.id for each in stored]
    batches = [
        call.content.count(b"\r\nContent-ID:") for call in gmail.calls if call.name == "batch"
    ]
    assert batches == [25, 15]


def test_message_deleted_between_list_and_rows_is_left_out(api: Api, gmail: GmailServer) -> None:
    stored = arrived(gmail, 2)
    gmail.fail("messages.get", 404, "notFound", only=lambda call: call.id == stored[0].id)
    assert [row["id"] for row in result(api.tool("list_emails"))["emails"]] == [stored[1].id]


def test_thread_is_read_by_its_own_id_and_by_a_message(api: Api, gmail: GmailServer) -> None:
    first = gmail.deliver(ADA, letter("One", Message_ID="<1@x.example>"))
    gmail.put_draft(ADA, letter("An unfinished answer", In_Reply_To="<1@x.example>"))
    second = gmail.deliver(
        ADA, letter("Two", Message_ID="<2@x.example>", References="<1@x.example>")
    )
    for named in ({"thread_id": first.thread}, {"message_id": second.id}):
        thread = result(api.tool("read_thread", **named))
        assert thread["thread_id"] == first.thread
        assert [message["id"] for message in thread["messages"]] == [first.id, second.id]


def test_row_and_mail_name_their_conversation(api: Api, gmail: GmailServer) -> None:
    stored = gmail.deliver(ADA, letter("One"))
    (row,) = result(api.tool("list_emails"))["emails"]
    assert (
        row["thread_id"]
        == result(api.tool("read_email", message_id=row["id"]))["thread_id"]
        == stored.thread
    )


def test_folders_are_labels_with_their_counts(api: Api, gmail: GmailServer) -> None:
    gmail.box(ADA).labels["Label_3"] = "Receipts/2026"
    gmail.deliver(ADA, letter("Filed"), labels=("Label_3",))
    folders = {folder["id"]: folder for folder in result(api.tool("list_folders"))["folders"]}
    assert folders["Label_3"] == {"id": "Label_3", "name": "Receipts/2026", "unread": 0, "total": 1}
    assert folders["SPAM"]["role"] == "junk"
    assert gmail.requests() == {"labels.list": 1, "batch": 1}
    for named in ("Label_3", "Receipts/2026"):
        assert [
            row["subject"] for row in result(api.tool("list_emails", folder=named))["emails"]
        ] == ["Filed"]


@pytest.mark.parametrize("label", ["Label_7", "Receipts"])
def test_drafts_are_searched_by_a_label_too(api: Api, gmail: GmailServer, label: str) -> None:
    gmail.box(ADA).labels["Label_7"] = "Receipts"
    gmail.put_draft(ADA, letter("Without"))
    own = result(api.tool("create_draft", to=["x@y.example"], subject="With", body="Good"))
    gmail.box(ADA).messages[own["id"].partition(".")[2]].labels.add("Label_7")
    (row,) = result(api.tool("search_emails", folder="drafts", label_ids=[label]))["emails"]
    assert row["subject"] == "With"
    new = result(
        api.tool(
            "update_draft", draft_id=row["id"], to=["x@y.example"], subject="With", body="Better"
        )
    )
    assert result(api.tool("delete_draft", draft_id=new["id"])) == {"deleted": True}


@pytest.mark.parametrize("label", ["TRASH", "trash", "SPAM"])
def test_labels_of_trash_and_spam_search_there(api: Api, gmail: GmailServer, label: str) -> None:
    gmail.deliver(ADA, letter("Gone"), labels=(label.upper(),))
    gmail.deliver(ADA, letter("Here"))
    for tool, rows in (("gmail_search_messages", "messages"), ("search_emails", "emails")):
        assert [
            row["subject"] for row in result(api.tool(tool, query="", label_ids=[label]))[rows]
        ] == ["Gone"]
    assert [
        row["subject"]
        for row in result(api.tool("gmail_search_messages", query="Gone"))["messages"]
    ] == []


def test_found_draft_can_be_replaced_and_removed(api: Api, gmail: GmailServer) -> None:
    result(api.tool("create_draft", to=["x@y.example"], subject="Draft", body="Good"))
    (row,) = result(api.tool("gmail_search_messages", query="subject:Draft"))["messages"]
    new = result(
        api.tool(
            "update_draft", draft_id=row["id"], to=["x@y.example"], subject="Draft", body="Better"
        )
    )
    assert "Better" in result(api.tool("read_email", message_id=new["id"]))["body"]
    result(api.tool("delete_draft", draft_id=new["id"]))
    assert gmail.box(ADA).drafts == {}


def test_reply_draft_is_in_its_conversation(api: Api, gmail: GmailServer) -> None:
    original = gmail.deliver(ADA, letter("Question", Message_ID="<q@x.example>"))
    result(api.tool("draft_reply", message_id=original.id, body="Answer"))
    (draft,) = (stored for stored in gmail.box(ADA).messages.values() if "DRAFT" in stored.labels)
    assert draft.thread == original.thread
    assert draft.header("In-Reply-To") == "<q@x.example>"


def test_large_draft_is_uploaded_unchanged(api: Api, gmail: GmailServer) -> None:
    content = base64.b64encode(bytes(range(256)) * 8000).decode()
    draft = result(
        api.tool(
            "create_draft",
            to=["x@y.example"],
            subject="Large",
            body="See the file.",
            attachments=[{"name": "a.bin", "content_base64": content}],
        )
    )
    assert gmail.calls[-1].one("uploadType") == "multipart"
    (listed,) = result(api.tool("list_attachments", message_id=draft["id"]))["attachments"]
    assert listed["size"] == 256 * 8000
