"""Arguments that send_email accepts and refuses."""

from typing import Any

import pytest
from django.test import Client

from accounts.models import Mailbox
from approvals.models import PendingAction
from tests.conftest import HELLO, Api, problem_of
from tools.catalog.entries import TOOLS

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"to": []}, "to", id="nobody"),
        pytest.param({"to": ["nicht-eine-email"]}, "to.0", id="no-address"),
        pytest.param({"to": 7}, "to", id="not-a-list"),
        pytest.param({"to": "mira"}, "to.0", id="text-that-is-no-address"),
        pytest.param({"cc": "a@x.example, b@x.example"}, "cc.0", id="two-addresses-in-a-text"),
        pytest.param(
            {"to": [f"p{i}@northwind.example" for i in range(501)]}, "to", id="501-recipients"
        ),
        pytest.param(
            {"cc": [f"p{i}@northwind.example" for i in range(501)]}, "cc", id="501-copies"
        ),
        pytest.param({"subject": ""}, "subject", id="no-subject"),
        pytest.param({"subject": "s" * 256}, "subject", id="subject-of-256"),
        pytest.param({"body": ""}, "body", id="no-body"),
        pytest.param({"body": "b" * 100_001}, "body", id="body-of-100001"),
        pytest.param({"body_type": "rtf"}, "body_type", id="unknown-body-type"),
        pytest.param({"importance": "urgent"}, "importance", id="unknown-importance"),
        pytest.param({"confirm": "true"}, "confirm", id="confirm-is-no-word"),
        pytest.param({"attachment": "x"}, "attachment", id="unknown-field"),
        pytest.param({"mailbox": "a@b.example", "user_id": "c@d.example"}, "", id="two-mailboxes"),
    ],
)
def test_invalid_mail_is_refused_with_the_field(
    api: Api, change: dict[str, Any], field: str
) -> None:
    answer = api.tool("send_email", **{**HELLO, "confirm": True, **change})

    assert answer.status_code == 422
    assert field in {error["field"] for error in problem_of(answer)["errors"]}
    assert not PendingAction.objects.exists()


@pytest.mark.fault(49, 50)
@pytest.mark.parametrize(
    "address",
    [
        pytest.param('"a@good.example" <x@evil.example>', id="name-that-is-an-address"),
        pytest.param("a@good.example <x@evil.example>", id="address-before-address"),
        pytest.param("Team: a@x.example, b@x.example;", id="group"),
        pytest.param("a(comment)@x.example", id="comment"),
        pytest.param('"a b"@x.example', id="quoted-local-part"),
        pytest.param("a%b.example@x.example", id="percent-hack"),
        pytest.param("a=?utf-8?q?=40evil.example=3e?=b@x.example", id="encoded-word"),
        pytest.param("a@[127.0.0.1]", id="literal"),
        pytest.param(f"a@{'b.' * 20}x.example", id="many-dots"),
        pytest.param("a\u202eb@x.example", id="right-to-left-override"),
        pytest.param("a@x.example\r\nBcc: e@evil.example", id="newline"),
        pytest.param("a@x.example,b@x.example", id="two-in-one"),
    ],
)
def test_address_that_reads_as_another_is_refused(api: Api, address: str) -> None:
    assert api.tool("send_email", **{**HELLO, "to": [address], "confirm": True}).status_code == 422


@pytest.mark.fault(49)
@pytest.mark.parametrize(
    "subject",
    [
        pytest.param("Hi\r\nBcc: e@evil.example", id="crlf"),
        pytest.param("Hi\nthere", id="lf"),
        pytest.param("Hi\x00there", id="nul"),
        pytest.param("Hi\u2028there", id="line-separator"),
        pytest.param("Hi =?UTF-8?Q?=0A?=Bcc: injected@evil.example", id="encoded-newline"),
        pytest.param("=?utf-8?b?SGVsbG8=?=", id="encoded-word"),
        pytest.param(" Hi", id="leading-space"),
    ],
)
def test_subject_with_more_than_a_subject_is_refused(api: Api, subject: str) -> None:
    answer = api.tool("send_email", **{**HELLO, "subject": subject, "confirm": True})

    assert answer.status_code == 422
    assert {error["field"] for error in problem_of(answer)["errors"]} == {"subject"}
    assert not PendingAction.objects.exists()


@pytest.mark.parametrize("body", ["not json", "[]", '"text"', "{", b"\xff\xfe"])
def test_body_that_is_no_object_is_a_bad_request(api: Api, body: str | bytes) -> None:
    assert api.post("/tools/send_email", body).status_code == 400


def test_unknown_tool_is_not_found(api: Api) -> None:
    assert problem_of(api.tool("send_everything"))["code"] == "not_found"


@pytest.mark.parametrize("name", ["mailbox", "user_id"])
def test_mailbox_can_be_named_by_address_either_way(api: Api, name: str) -> None:
    assert api.tool("send_email", **HELLO, **{name: "ALICE@lovelace.example"}).status_code == 200


def test_five_hundred_recipients_are_accepted_with_a_warning(api: Api) -> None:
    everybody = [f"person{number}@northwind.example" for number in range(500)]

    answer = api.tool("send_email", **{**HELLO, "to": everybody})

    assert answer.status_code == 200
    assert answer.json()["preview"]["to"] == everybody
    assert "many_recipients" in {warning["code"] for warning in answer.json()["warnings"]}


def test_one_address_may_be_given_as_a_text(api: Api, mailbox: Mailbox) -> None:
    alone = {"to": "mira@northwind.example", "cc": "ada@x.example", "bcc": "bo@x.example"}
    listed = {name: [address] for name, address in alone.items()}

    shown = api.tool("send_email", **{**HELLO, **alone}).json()["preview"]
    assert {name: shown[name] for name in alone} == listed
    first = api.tool("send_email", key="k", **{**HELLO, **alone, "confirm": True})
    again = api.tool("send_email", key="k", **{**HELLO, **listed, "confirm": True})
    assert again.json()["action"]["id"] == first.json()["action"]["id"]
    assert api.tool("create_draft", **{**HELLO, **alone}).json()["to"] == listed["to"]


def test_html_that_would_leave_as_text_is_named_to_the_program(api: Api) -> None:
    page = {**HELLO, "body": "<p>Hello <b>Mira</b></p>"}
    for confirm in (False, True):
        answer = api.tool("send_email", **page, confirm=confirm).json()
        assert ["body_type" in note for note in answer["notes"]] == [True]
    for plain in ({**page, "body_type": "html"}, {**HELLO, "body": "if 1 < 2 and p > 3: stop"}):
        assert "notes" not in api.tool("send_email", **plain).json()


def test_international_domain_is_shown_and_used_as_ascii(api: Api) -> None:
    # A Greek alpha.
    answer = api.tool("send_email", **{**HELLO, "to": ["paul@lovel\u03b1ce.example"]})

    assert answer.json()["preview"]["to"] == ["paul@xn--lovelce-5lf.example"]


def test_api_documents_serve_people_and_programs(client: Client) -> None:
    page = client.get("/api/v1/docs").content.decode()
    described = client.get("/api/v1/openapi.json").json()

    assert described["openapi"].startswith("3.1")
    for name in TOOLS:
        assert f"POST /api/v1/tools/{name}" in page
        assert f"/api/v1/tools/{name}" in described["paths"]
