"""Approvers can read what a proposal hid from its recipient, and the treatment of each."""

import uuid
from typing import Any

import pytest

from accounts.access.caller import Caller
from accounts.models import Mailbox, User
from approvals.models import Revision
from tests.conftest import Api, Reviewer
from tests.security.hiding import WORD, hiding_forms
from tests.security.test_everything_that_leaves_is_shown import mail, pages
from tests.support.servers.memory import MemoryServer
from tests.support.stored import store_mail
from tools.mail.html.clean import clean
from tools.mail.message.hidden import MOST_CHARACTERS, MOST_TEXTS, unseen_texts

pytestmark = pytest.mark.django_db(transaction=True)
LISTED = '<section class="concealed"'
SHOWN, REMOVED = "was hidden, now visible in the message", "not visible to the recipient, removed"
LEAVES = "not visible to the recipient, leaves"


def listed_in(page: str) -> str:
    """Return the block of hidden texts in a page, or an empty string."""
    return page.partition(LISTED)[2].partition("</section>")[0]


def propose_html(api: Api, body: str, **more: Any) -> str:
    return api.propose(body=body, body_type="html", **more)


@pytest.mark.parametrize(
    ("html", "text", "fate"),
    [
        (
            '<p>Hi</p><div style="display:none">Pay &lt;b&gt;4711&lt;/b&gt;</div>',
            "Pay &lt;b&gt;4711&lt;/b&gt;",
            SHOWN,
        ),
        ('<p>Hi</p><p style="color:#fff">Pay 4711</p>', "Pay 4711", SHOWN),
        ("<p>Hi</p><style>.x{font-size:0}</style><p class=x>Pay 4711</p>", "Pay 4711", SHOWN),
        ("<p>Hi</p><!-- Pay <b>4711</b> -->", "Pay 4711", REMOVED),
        ("<p>Hi</p><noscript>Pay 4711</noscript>", "Pay 4711", REMOVED),
        ("<p>Hi</p><template><p>Pay 4711</p></template>", "Pay 4711", REMOVED),
        ("<p>Hi\U000e0050\U000e0061\U000e0079</p>", "Pay", REMOVED),
    ],
)
def test_hidden_text_is_listed_with_its_fate(
    api: Api, reviewer: Reviewer, html: str, text: str, fate: str
) -> None:
    for page in pages(reviewer, propose_html(api, html)):
        block = listed_in(page)
        assert f"<bdi>{text}</bdi>" in block
        assert fate in block


def test_invisible_characters_of_a_plain_text_are_listed(api: Api, reviewer: Reviewer) -> None:
    for page in pages(reviewer, api.propose(body="Hi\U000e0050\U000e0061\U000e0079")):
        assert "<bdi>Pay</bdi>" in listed_in(page)


@pytest.mark.parametrize("html", ["<p>Hi</p>", "<p style='color:#333'>Hi</p><script>x()</script>"])
def test_no_list_is_shown_without_hidden_text(api: Api, reviewer: Reviewer, html: str) -> None:
    assert all(LISTED not in page for page in pages(reviewer, propose_html(api, html)))


def test_list_is_bounded(api: Api, reviewer: Reviewer) -> None:
    html = "".join(
        f"<p hidden>{number} {'long ' * 100}</p><!-- no. {number} -->" for number in range(100)
    )
    for page in pages(reviewer, propose_html(api, f"<p>Hi</p>{html}")):
        block = listed_in(page)
        assert 0 < block.count("<li") <= MOST_TEXTS
        assert len(block) < MOST_TEXTS * (MOST_CHARACTERS + 500)


def test_stored_html_that_hides_text_is_marked_before_approval(
    mailbox: Mailbox, alice: User, reviewer: Reviewer
) -> None:
    action = str(
        store_mail(
            Caller(user=alice, surface="web"),
            mailbox,
            html='<p>Lunch?</p><p style="font-size:0">Pay <b>4711</b></p>',
        ).pk
    )
    for page in pages(reviewer, action):
        block = listed_in(page)
        assert "4711" in block
        assert LEAVES in block


def test_new_content_of_a_draft_is_listed_too(
    api: Api, reviewer: Reviewer, server: MemoryServer, mailbox: Mailbox
) -> None:
    draft = mail(mailbox.address, "bob@lovelace.example", "Lunch?\n")
    server.deliver(mailbox.address, draft.as_bytes(), folder="drafts")
    (listed,) = api.tool("list_drafts").json()["drafts"]
    answer = api.tool(
        "update_draft",
        draft_id=listed["id"],
        to=["bob@lovelace.example"],
        subject="Lunch",
        body="<p>Hi</p><p hidden>Pay 4711</p>",
        body_type="html",
    )
    for page in pages(reviewer, answer.json()["action"]["id"]):
        assert "<bdi>Pay 4711</bdi>" in listed_in(page)


def test_list_is_unreadable_in_the_database(api: Api) -> None:
    action = propose_html(api, "<p>Hi</p><!-- Pay 4711 -->")
    assert "4711" not in str(
        Revision.objects.filter(action_id=uuid.UUID(action)).values("preview").get()
    )


def test_cleaned_html_hides_nothing() -> None:
    assert [
        form
        for form in hiding_forms(20261122, 600)
        if WORD in " ".join(unseen_texts(clean(form).html))
    ] == []


BLACK_ON_BLACK = '<p>Hi</p><p style="color:#000">SECRET</p>'


@pytest.mark.parametrize(
    "before",
    [
        "<body bgcolor=black>",
        "<!-- <body x --><body bgcolor=black>",
        '<p title="<body x">a</p><body bgcolor=black>',
        "<script>'<body x'</script><body bgcolor=black>",
        "<body class=x><body bgcolor=black>",
        "<body bgcolor=black></body>",
        "<body bgcolor=black><body bgcolor=white>",
        "<svg><body bgcolor=black>",
        "<basefont bgcolor=white><body bgcolor=black>",
        "<body bgcolor=black><keygen bgcolor=white>",
    ],
)
def test_colour_of_the_body_is_found(
    api: Api, server: MemoryServer, mailbox: Mailbox, before: str
) -> None:
    """Find text in the colour of its background, wherever the page sets that colour."""
    message = mail("mallory@evil.example", mailbox.address, "Hi\n")
    message.set_content(before + BLACK_ON_BLACK, subtype="html")
    server.deliver(mailbox.address, message.as_bytes())
    (card,) = api.tool("list_emails").json()["emails"]

    read = api.tool("read_email", message_id=card["id"]).json()

    assert "SECRET" not in read["body"]
    assert read["hidden_text_removed"] is True


SIGNED = """Subject: Signed
From: mallory@evil.example
Content-Type: multipart/signed; micalg=sha-256; protocol="application/pkcs7-signature"; boundary=b

--b
Content-Type: text/html

<p>Hi</p><p hidden>SECRET</p>
--b
Content-Type: application/pkcs7-signature; name=smime.p7s

x
--b--
"""


def test_notes_of_signature_and_hidden_text_are_both_given(
    api: Api, server: MemoryServer, mailbox: Mailbox
) -> None:
    server.deliver(mailbox.address, SIGNED.encode())
    (card,) = api.tool("list_emails").json()["emails"]

    read = api.tool("read_email", message_id=card["id"]).json()

    assert read["notes"] == ["Signed, not verified.", "Hidden text was left out: 6 characters."]
    assert read["body"] == "Hi"
