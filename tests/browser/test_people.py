"""People in a browser: a passkey from its registration to a risky approval, and the steps from
nothing to a sent mail.
"""

import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import PATIENCE_MS, picture
from tests.browser.presses import approve
from tests.support.processes.mailhub import Mailhub
from tests.support.processes.person import request
from tests.support.processes.programs import manage
from tests.support.servers.certificates import Authority, authority
from tests.support.servers.tls_relay import TlsRelay

__all__ = ["authority"]
pytestmark = [pytest.mark.browser, pytest.mark.process]
CHARLES, MIRA = "charles@lovelace.example", "mira@northwind.example"
PATIENT_SECONDS = 120  # "connected in two minutes by someone who has never read a manual"
AUTHENTICATOR = {
    "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
    "isUserVerified": True, "automaticPresenceSimulation": True,
}  # fmt: skip
# Makes the sign-in look old.
LONG_AGO = """
from django.contrib.sessions.models import Session
from accounts.people.sessions import SessionStore
for row in Session.objects.all():
    session = SessionStore(row.pk)
    content = {**session.load(), "signed_in_at": 0}
    Session.objects.filter(pk=row.pk).update(session_data=session.encode(content))
"""


@pytest.fixture(scope="module")
def mailhub(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Mailhub]:
    with Mailhub(
        tmp_path_factory.mktemp("mailhub"),
        MAILHUB_UNDO_SECONDS=1,
        SSL_CERT_FILE=authority.file,
        DJANGO_SETTINGS_MODULE="tests.support.processes.wizard_settings",
    ) as running:
        yield running


def by_name(link: str) -> str:
    """Return the address with a host name: passkeys do not work for an IP address."""
    return link.replace("127.0.0.1", "localhost")


def give_authenticator(page: Page) -> list[Any]:
    """Give the page a device that keeps passkeys, and return the list of its touches."""
    touches: list[Any] = []
    devtools = page.context.new_cdp_session(page)
    devtools.on("WebAuthn.credentialAsserted", lambda touch: touches.append(touch))
    devtools.send("WebAuthn.enable")
    devtools.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
    return touches


def propose_risky(mailhub: Mailhub) -> tuple[dict[str, Any], str, str]:
    """Propose a mail with a serious warning; return its action, its page and its subject."""
    subject = f"Risky {uuid.uuid4().hex}"
    action = mailhub.propose(subject, body="My card is 4111 1111 1111 1111.")
    return action, by_name(action["review_url"]), subject


def make_sign_in_old(mailhub: Mailhub) -> None:
    assert manage(mailhub.home, "shell", "-c", LONG_AGO).returncode == 0


def no_barriers(page: Page) -> None:
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]})
    assert found.violations_count == 0, f"{page.url}: {found.generate_report()}"


def rail(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Main").get_by_role("link", name=name).first.click()


def look_at_the_first_run(page: Page, mailhub: Mailhub) -> None:
    """Sign in by a link, and find the first steps, three waiting mails and the lines to paste."""
    page.goto(mailhub.new_link())
    page.locator("form[data-action=sign-in] button").click()
    expect(page.get_by_role("heading", name="Welcome")).to_be_visible()
    no_barriers(page)
    page.get_by_role("link", name="Review them").click()
    for subject in (
        "Re: Delivery on Thursday?",
        "Fwd: Accident report 4471: van LV-207",
        "Quote: twelve warning levers",
    ):
        expect(page.get_by_role("link", name=subject).first).to_be_visible()
    page.get_by_role("link", name="Fwd: Accident report").click()
    expect(page.get_by_text("accident-report-4471.pdf").first).to_be_visible()
    expect(page.get_by_text("claims@insura.example").first).to_be_visible()
    # A script with the sandbox's own token sees only its own work.
    listed = mailhub.rest("GET", "/actions").json()["items"]
    assert all("levers" not in str(item) for item in listed)
    page.goto(f"{mailhub.url}/welcome/")
    page.get_by_text("curl", exact=True).click()
    expect(page.get_by_text(mailhub.sandbox["api_token"]).last).to_be_visible()
    no_barriers(page)


def test_person_of_a_first_run_adds_a_passkey_and_approves(
    window: BrowserContext, mailhub: Mailhub
) -> None:
    home = by_name(mailhub.url)
    page = window.new_page()
    # Once Ada has a passkey, a link by itself no longer lets her in.
    look_at_the_first_run(page, mailhub)
    touches = give_authenticator(page)

    page.goto(by_name(mailhub.new_link()))
    page.locator("form[data-action=sign-in] button").click()
    page.wait_for_url(f"{home}/")
    page.get_by_role("link", name="Ada Lovelace").click()
    no_barriers(page)
    page.get_by_role("link", name="Add a passkey").click()
    no_barriers(page)
    page.locator("#mfa_webauthn_add").click()
    page.wait_for_url(re.compile("/recovery-codes/"))
    no_barriers(page)

    page.locator("form[data-action=sign-out] button").click()
    page.wait_for_url(re.compile("/sign-in/"))
    no_barriers(page)
    # A link from a notification leads to the mail after the sign-in.
    action, review, subject = propose_risky(mailhub)
    page.goto(review)
    page.get_by_role("button", name="Sign in with a passkey").click()
    page.wait_for_url(review)

    # From the notification to the sent mail: open, decide, touch the passkey.
    make_sign_in_old(mailhub)
    taps = ["the notification"]
    page.goto(review)
    page.expose_binding("tapped", lambda _, what: taps.append(what))
    page.evaluate("addEventListener('click', (event) => tapped(event.target.textContent), true)")
    touches.clear()
    approve(page)
    expect(page.get_by_role("heading", name="Sent", exact=True)).to_be_visible()
    # The notification, the bar that repeats the warning, its button; and one touch of the passkey.
    assert (len(taps), len(touches)) == (3, 1)
    assert mailhub.action(action["id"])["state"] == "succeeded"
    assert len(mailhub.mail(MIRA, "INBOX", subject)) == 1

    # An older browser, or a passkey that is not touched: a page asks, and nothing is sent before.
    make_sign_in_old(mailhub)
    action, review, _ = propose_risky(mailhub)
    page.goto(review)
    page.evaluate("PublicKeyCredential.parseRequestOptionsFromJSON = undefined")
    approve(page)
    page.wait_for_url(re.compile("/sign-in/again/"))
    no_barriers(page)
    assert mailhub.action(action["id"])["state"] == "pending"
    page.locator("[data-way=mfa_reauthenticate_webauthn], [data-way*=webauthn]").first.click()
    no_barriers(page)
    page.locator("#mfa_webauthn_reauthenticate").click()
    page.wait_for_url(review)
    approve(page)
    expect(page.locator("form[data-action=approve]")).to_have_count(0)
    assert mailhub.ended(action["id"])["state"] == "succeeded"

    # A form that was typed when the sign-in was old is not typed again.
    make_sign_in_old(mailhub)
    rail(page, "Mailboxes")
    page.get_by_role("link", name="ada@").first.click()
    page.locator("form[data-action=invite] [name=email]").fill("carol@lovelace.example")
    page.locator("form[data-action=invite] [name=role]").select_option("viewer")
    page.locator("form[data-action=invite] button").click()
    page.locator("[data-way*=webauthn]").first.click()
    page.locator("#mfa_webauthn_reauthenticate").click()
    expect(page.locator("form[data-action=invite] [name=email]")).to_have_value(
        "carol@lovelace.example"
    )
    page.locator("form[data-action=invite] button").click()
    page.get_by_role("link", name="Back to the mailbox").click()
    invited = page.get_by_role("listitem").filter(has_text="carol@lovelace.example")
    expect(invited).to_contain_text("may look")
    expect(page.locator("form[data-action=invite] [name=email]")).to_have_value("")


@pytest.mark.long
def test_clicks_lead_to_a_sent_mail_within_two_minutes(
    window: BrowserContext, mailhub: Mailhub, authority: Authority, tmp_path: Path
) -> None:
    """Let Charles start empty, connect his mailbox, create a token, and approve its proposal."""
    assert (
        manage(
            mailhub.home, "create_user", "--email", CHARLES, "--name", "Charles Babbage"
        ).returncode
        == 0
    )
    link = manage(mailhub.home, "sign_in_link", "--user", CHARLES).stdout.strip()
    account = mailhub.sandbox["others"][0]["imap"]
    server = authority.server_context("localhost")
    smtp = mailhub.sandbox["smtp"]
    with (
        TlsRelay(server, (account["host"], account["port"])) as imap,
        TlsRelay(server, (smtp["host"], smtp["port"])) as outgoing,
    ):
        began = time.monotonic()
        page = window.new_page()
        give_authenticator(page)
        page.goto(by_name(link))
        page.locator("form[data-action=sign-in] button").click()
        rail(page, "Mailboxes")
        no_barriers(page)
        picture(page, "first-1-empty")
        page.get_by_role("link", name="Connect a mailbox").click()
        no_barriers(page)
        page.get_by_label("E-mail address of the mailbox").fill(CHARLES)
        page.get_by_role("button", name="Continue").click()
        page.get_by_label("Server for incoming mail").fill(f"localhost:{imap.port}:tls")
        page.get_by_label("Server for outgoing mail").fill(f"localhost:{outgoing.port}:tls")
        page.get_by_label("Password").fill("a slip of the finger")
        page.get_by_role("button", name="Test and connect").click()

        # After a wrong password the page names the failed step, and keeps every field but the
        # password.
        expect(page.locator("[data-step=done]")).to_have_count(1)
        expect(page.locator("[data-step=failed]")).to_contain_text(
            "signing in to the server for incoming mail"
        )
        expect(page.get_by_text("Not saved.")).to_be_visible()
        picture(page, "first-2-wrong-password")
        no_barriers(page)
        expect(page.get_by_label("Password")).to_have_value("")
        page.get_by_label("Password").fill(account["password"])
        page.get_by_role("button", name="Test and connect").click()
        expect(page.get_by_text(f"{CHARLES} is connected.")).to_be_visible()

        picture(page, "first-3-connected")
        rail(page, "Tokens")
        page.get_by_role("link", name="Create a token").click()
        # Ada has an account too, and Charles manages a mailbox now: his account needs a second
        # factor.
        expect(page.get_by_role("heading", name="Set up a second factor first")).to_be_visible()
        picture(page, "first-4-factor")
        no_barriers(page)
        page.get_by_role("link", name="Add a passkey").click()
        page.locator("#mfa_webauthn_add").click()
        page.wait_for_url(re.compile("/recovery-codes/"))
        picture(page, "first-4-recovery-codes")
        rail(page, "Tokens")
        page.get_by_role("link", name="Create a token").click()
        no_barriers(page)
        page.get_by_label("Name").fill("desk")
        for box in page.get_by_role("checkbox").all():
            box.check()
        page.get_by_role("button", name="Create token").click()
        secret = page.get_by_label("Token", exact=True).input_value()
        picture(page, "first-4-token")
        no_barriers(page)

        subject = f"First {uuid.uuid4().hex}"
        body = f'{{"to": ["{MIRA}"], "subject": "{subject}", "body": "Hello.", "confirm": true}}'
        proposed = request(
            f"{mailhub.url}/api/v1/tools/send_email",
            "POST",
            body=body.encode(),
            headers={"Authorization": f"Bearer {secret}", "Content-Type": "application/json"},
        )
        assert proposed.status == 202, proposed.text
        rail(page, "Waiting")
        page.get_by_role("link", name=subject).click()
        expect(page.locator("form[data-action=approve]").first).to_be_visible()
        picture(page, "first-5-review")
        approve(page)
        expect(page.get_by_role("heading", name="Sent", exact=True)).to_be_visible(
            timeout=PATIENCE_MS
        )
        took = time.monotonic() - began
        picture(page, "first-6-sent")
        assert len(mailhub.mail(MIRA, "INBOX", subject)) == 1
        assert took < PATIENT_SECONDS
        page.goto(by_name(f"{mailhub.url}/tokens/requests/"))
        expect(page.locator("tbody tr")).to_have_count(1)
        no_barriers(page)
