"""The pages about programs that connect by OAuth, with content."""

import time
from collections.abc import Callable

from allauth.idp.oidc.models import Client
from playwright.sync_api import Page

from accounts.models import ApiToken, Mailbox, QuotaUse, User
from accounts.oauth import devices
from tests.support.people.programs import Program

KNOWN = "https://desk.northwind.example/mailhub/client-metadata.json"


def connect_programs(alice: User, mailbox: Mailbox) -> dict[str, str]:
    """Connect two programs, and return the addresses of pages about programs by their content."""
    local = Program.registered(
        name="Terminal helper", grant_types=["urn:ietf:params:oauth:grant-type:device_code"]
    )
    hosted = Program.registered(
        name="Quarterly report assistant of the accounts department with a long name",
        back="https://agents.northwind.example/oauth/callback",
    )
    app = Program.registered(name="Editor", back="editor://northwind.helper/oauth/callback")
    known = Program(client_id=KNOWN, back=local.back)
    _describe_known(known)
    local.connect(alice, mailbox, scopes="mail:read")
    known.connect(alice, mailbox)
    grant = ApiToken.objects.get(user=alice, client=local.client_id)
    return {
        "a program on this computer": local.address(),
        "a program of a host": hosted.address(),
        "an app": app.address(scope="mail:read"),
        "a program with a document": known.address(),
        "a program without PKCE": hosted.address(code_challenge=None),
        "an unknown program": Program(client_id="unknown").address(),
        "the page for devices": "/oauth/device",
        "a limited token": f"/tokens/{grant.pk}/narrow/",
    }


def _describe_known(program: Program) -> None:
    """Store what mailhub has read from the document of a program a moment ago."""
    Client.objects.create(
        id=program.client_id,
        name="Desk assistant",
        type=Client.Type.PUBLIC,
        grant_types="authorization_code\nrefresh_token",
        redirect_uris=program.back,
        data={"cimd": True, "updated_at": int(time.time())},
    )


def device(answer: str = "") -> Callable[[Page], None]:
    """Return a step to the consent page of a new device code, and to the page after the answer."""

    def step(page: Page) -> None:
        QuotaUse.objects.filter(key__startswith=devices.GUESSES.name).delete()
        client = Client.objects.get(name="Terminal helper")
        scopes = ["mail:read", "mail:propose"]
        code = devices.begin(client, scopes=scopes, resources=[])["user_code"]
        page.goto(f"/oauth/device?code={code}")
        with page.expect_navigation():
            page.locator("form[data-action=device] button").click()
        if answer:
            page.locator("input[name=mailboxes]").first.check()
            with page.expect_navigation():
                page.locator(f"form[data-action=consent] button[value={answer}]").click()

    return step
