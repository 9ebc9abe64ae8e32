"""The wizard: its suggestions for an address, its message for each wrong step, and no save before
the connection works.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.test import Client

from accounts.connect import discovery
from accounts.connect.google import COMPOSE_SCOPE
from accounts.models import Mailbox, User
from approvals.models import AuditEvent
from mailhub.sandbox.state import LoopbackServers
from tests.accounts.test_connect_microsoft import graph, service
from tests.conftest import make_mailbox
from tests.support.people.browser import browser
from tests.support.people.gmail import CLIENT, gmail
from tests.support.servers.gmail import GmailServer
from tests.support.servers.memory import MemoryServer
from tests.support.servers.microsoft_sign_in import SignInService
from tests.support.servers.sandbox import ADA, CHARLES, SandboxServer

__all__ = ["gmail", "graph", "service"]

pytestmark = pytest.mark.django_db(transaction=True)
CONFIG = """<clientConfig version="1.1"><emailProvider id="x.example"><domain>x.example</domain>
<incomingServer type="pop3"><hostname>pop.x.example</hostname><port>995</port><socketType>SSL</socketType>
</incomingServer>
<incomingServer type="imap"><hostname>IMAP.x.example</hostname><port>993</port><socketType>SSL</socketType>
<username>%EMAILLOCALPART%</username></incomingServer>
<outgoingServer type="smtp"><hostname>smtp.x.example</hostname><port>587</port><socketType>STARTTLS</socketType>
</outgoingServer></emailProvider></clientConfig>"""


def zone(records: Mapping[tuple[str, str], Sequence[str]]) -> discovery.Lookup:
    return lambda name, kind: records.get((name, kind), [])


NOTHING = zone({})


def in_sandbox(settings: Any, sandbox: SandboxServer) -> LoopbackServers:
    """Let pages be those of `make run`: only the sandbox's servers are of this machine."""
    servers = LoopbackServers(sandbox.folder, ["sandbox"])
    settings.MAILHUB_LOOPBACK_SERVERS = servers
    settings.MAILHUB_LOOPBACK_FOR_PEOPLE = frozenset()
    settings.MAILHUB_SANDBOX_SERVERS_OF = servers.servers_of
    return servers


def test_address_of_the_sandbox_is_connected_there(
    settings: Any, sandbox: SandboxServer, alice: User
) -> None:
    in_sandbox(settings, sandbox)
    window = browser(alice)
    page = window.post("/mailboxes/connect/", {"address": CHARLES})
    assert "This is a mailbox of the sandbox." in page.content.decode()
    password = next(each.password for each in sandbox.state.accounts if each.address == CHARLES)
    given = page.context["form"].initial | {"password": password}
    answer = window.post("/mailboxes/connect/imap/", given)
    assert answer.status_code == 302, answer.content.decode()
    assert Mailbox.objects.get().address == CHARLES


@pytest.mark.parametrize("address", ["me@company.example", "ada@lovelace.example "])
def test_servers_of_the_sandbox_are_only_for_its_addresses(
    settings: Any, sandbox: SandboxServer, alice: User, address: str
) -> None:
    servers = in_sandbox(settings, sandbox).servers_of(CHARLES)
    assert servers is not None
    for imap, smtp in (servers, [each.replace(":plain", ":starttls") for each in servers]):
        given = {"imap": imap, "smtp": smtp, "username": "me@company.example"}
        answer = browser(alice).post(
            "/mailboxes/connect/imap/", given | {"address": address, "password": "secret"}
        )
        assert answer.status_code == 422
    assert not Mailbox.objects.exists()


@pytest.mark.parametrize(
    ("address", "way", "name"),
    [
        ("a@gmail.com", "gmail", "GOOGLE_CLIENT_ID"),
        ("a@outlook.com", "microsoft", "MICROSOFT_CLIENT_ID"),
    ],
)
def test_provider_that_is_not_set_up_is_not_offered(
    settings: Any, alice: User, address: str, way: str, name: str
) -> None:
    settings.GOOGLE_CLIENT_ID = settings.MICROSOFT_CLIENT_ID = ""
    settings.GMAIL_CREDENTIALS_PATH = ""
    page = browser(alice).post("/mailboxes/connect/", {"address": address}, follow=True)
    shown = page.content.decode()
    assert 'data-action="connect-oauth"' not in shown
    assert name in shown
    assert ("/mailboxes/connect/imap/?address=" in shown) is (way == "gmail")
    setattr(settings, name, "id")
    page = browser(alice).get(f"/mailboxes/connect/{way}/", {"address": address})
    assert 'data-action="connect-oauth"' in page.content.decode()


@pytest.mark.parametrize(
    ("address", "provider", "imap", "smtp"),
    [
        ("a@gmail.com", "gmail", "", ""),
        ("a@Outlook.com", "microsoft", "", ""),
        ("a@gmx.de", "imap", "imap.gmx.net:993", "mail.gmx.net:465"),
        ("a@icloud.com", "imap", "imap.mail.me.com:993", "smtp.mail.me.com:587"),
    ],
)
def test_table_knows_the_large_providers(address: str, provider: str, imap: str, smtp: str) -> None:
    found = discovery.discover(address, lookup=NOTHING)
    assert (found.provider, found.imap, found.smtp, found.how) == (provider, imap, smtp, "table")


@pytest.mark.parametrize(
    ("mx", "provider"),
    [
        ("10 aspmx.l.google.com.", "gmail"), ("0 x-example.mail.protection.outlook.com.", "microsoft"),
        ("10 google.com.evil.example.", "imap"), ("10 notgoogle.com.", "imap"),
    ],
)  # fmt: skip
def test_company_domain_is_recognised_by_its_mx_record(mx: str, provider: str) -> None:
    found = discovery.discover(
        "a@x.example", lookup=zone({("x.example", "MX"): [mx]}), fetch=lambda host, path: ""
    )
    assert found.provider == provider


def test_domain_records_are_asked_for_tls_before_starttls() -> None:
    records = {
        ("_imaps._tcp.x.example", "SRV"): [
            "20 1 993 second.x.example.",
            "10 1 993 Mail.x.example.",
        ],
        ("_imap._tcp.x.example", "SRV"): ["0 1 143 old.x.example."],
        ("_submissions._tcp.x.example", "SRV"): ["0 0 0 ."],
        ("_submission._tcp.x.example", "SRV"): ["0 1 587 mail.x.example."],
    }
    found = discovery.discover("a@x.example", lookup=zone(records))
    assert (found.imap, found.smtp) == ("mail.x.example:993:tls", "mail.x.example:587:starttls")
    assert (found.username, found.how) == ("a@x.example", "srv")


def test_configuration_file_of_the_domain_is_read() -> None:
    asked = []

    def fetched(host: str, path: str) -> str:
        asked.append(f"https://{host}{path}")
        return CONFIG if "well-known" in path else ""

    found = discovery.discover("ada@x.example", lookup=NOTHING, fetch=fetched)
    assert (found.imap, found.smtp) == ("imap.x.example:993:tls", "smtp.x.example:587:starttls")
    assert (found.username, found.how) == ("ada", "autoconfig")
    assert asked == [
        "https://autoconfig.x.example/mail/config-v1.1.xml",
        "https://x.example/.well-known/autoconfig/mail/config-v1.1.xml",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "", "no xml", "<a>", "<clientConfig/>", '<!DOCTYPE a [<!ENTITY b "c">]>' + CONFIG,
        CONFIG.replace("SSL", "plain"), CONFIG.replace("993", "many"), CONFIG.replace("outgoingServer", "other"),
    ],
)  # fmt: skip
def test_unusable_configuration_file_suggests_nothing(text: str) -> None:
    found = discovery.discover("a@x.example", lookup=NOTHING, fetch=lambda host, path: text)
    assert (found.imap, found.how) == ("", "nothing")


def test_no_file_is_fetched_from_inside() -> None:
    for host in ("localhost", "127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]"):
        assert discovery.fetch_text(host, "/mail/config-v1.1.xml") == ""


def by_imap(person: User, **changes: str) -> Any:
    form = {
        "address": "new@x.example",
        "imap": "imap.x.example:993",
        "smtp": "smtp.x.example:465",
        "username": "new",
        "password": "canary-secret",
    }
    return browser(person).post("/mailboxes/connect/imap/", {**form, **changes})


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"imap": "127.0.0.1:993"}, "This host cannot be used."),
        ({"imap": "10.1.2.3:993"}, "This host cannot be used."),
        ({"imap": "169.254.169.254:993"}, "This host cannot be used."),
        ({"imap": "localhost:143:plain"}, "is sent unencrypted"),
        ({"smtp": "smtp.x.example:25:plain"}, "is sent unencrypted"),
        ({"imap": "nonsense"}, "HOST:PORT"),
        ({"imap": "x.example:99999"}, "65535"),
        ({"address": "nobody"}, "valid email"),
        ({"password": ""}, "required"),
    ],
)
def test_wrong_step_is_explained_and_nothing_is_saved(
    alice: User, wrong: dict[str, str], words: str
) -> None:
    answer = by_imap(alice, **wrong)
    text = answer.content.decode()
    assert answer.status_code == 422
    assert words in text
    assert "canary-secret" not in text
    assert not Mailbox.objects.exists()


def ask(window: Client, address: str) -> dict[str, str]:
    """Go to the provider, and return the parameters of the authorization request."""
    asked = window.post("/mailboxes/connect/microsoft/", {"address": address})
    return dict(parse_qsl(urlsplit(asked["Location"]).query))


def come_back(window: Client, **answer: str) -> Any:
    return window.get("/mailboxes/connect/microsoft/answer/", answer, follow=True)


def test_consent_lists_only_requested_permissions(
    alice: User, service: SignInService, settings: Any
) -> None:
    settings.MICROSOFT_PERMISSIONS = ["Mail.Read", "Mail.Send"]
    page = browser(alice).post("/mailboxes/connect/", {"address": "alice@outlook.com"}, follow=True)
    text = page.content.decode()
    assert [words in text for words in ("read mail", "write drafts", "send mail")] == [
        True,
        False,
        True,
    ]


def test_consent_lists_permissions_and_connects(alice: User, service: SignInService) -> None:
    window = browser(alice)
    page = window.post("/mailboxes/connect/", {"address": "alice@outlook.com"}, follow=True)
    text = page.content.decode()
    for words in (
        "read mail",
        "write drafts",
        "only what a person has approved here",
        "never sees your password",
    ):
        assert words in text
    assert f"form-action 'self' {service.url}" in page["Content-Security-Policy"]

    asked = ask(window, ADA)
    assert asked["redirect_uri"].endswith("/mailboxes/connect/microsoft/answer/")
    assert (asked["code_challenge_method"], asked["login_hint"]) == ("S256", ADA)
    back = come_back(window, state=asked["state"], code=f"good:{asked['nonce']}")
    assert f"{ADA} is connected." in back.content.decode()
    assert "refresh" not in back.content.decode().lower().replace("reconnect", "")
    mailbox = Mailbox.objects.get()
    assert (mailbox.provider, mailbox.scopes) == ("microsoft", ["Mail.ReadWrite", "Mail.Send"])
    assert AuditEvent.objects.filter(event="mailbox_connected", mailbox=mailbox).exists()
    # The answer is valid only once.
    assert come_back(window, state=asked["state"], code="good").status_code == 403


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"state": "wrong", "code": "good"}, "was not begun here"),
        ({"code": "good"}, "was not begun here"),
        ({"error": "access_denied", "state": "{state}"}, "The access was not allowed"),
    ],
)
def test_unexpected_answer_saves_nothing_and_says_why(
    alice: User, service: SignInService, answer: dict[str, str], words: str
) -> None:
    window = browser(alice)
    state = ask(window, ADA)["state"]
    refused = come_back(
        window, **{name: value.format(state=state) for name, value in answer.items()}
    )
    assert refused.status_code == 403
    assert words in refused.content.decode()
    assert not Mailbox.objects.exists()
    assert service.grants == []


def test_sign_in_as_another_person_connects_nothing(alice: User, service: SignInService) -> None:
    window = browser(alice)
    asked = ask(window, "charles@lovelace.example")
    refused = come_back(window, state=asked["state"], code=f"good:{asked['nonce']}")
    assert refused.status_code == 403
    assert "Somebody else signed in" in refused.content.decode()
    assert not Mailbox.objects.exists()


def test_answer_in_a_browser_that_asked_nothing_is_refused(
    alice: User, service: SignInService
) -> None:
    other = User.objects.create_user("other@lovelace.example")
    state = ask(browser(other), ADA)["state"]
    assert come_back(browser(alice), state=state, code="good").status_code == 403
    assert not Mailbox.objects.exists()


def test_foreign_mailbox_is_refused_without_naming_its_owner(
    alice: User, charlie: User, service: SignInService, server: MemoryServer
) -> None:
    taken = make_mailbox(ADA, server, charlie)
    window = browser(alice)
    asked = ask(window, ADA)
    refused = come_back(window, state=asked["state"], code=f"good:{asked['nonce']}")
    assert refused.status_code == 403
    assert "you do not manage it" in refused.content.decode()
    assert "charlie" not in refused.content.decode()
    taken.refresh_from_db()
    assert taken.provider == "memory"


def test_missing_set_up_is_reported(alice: User, settings: Any) -> None:
    settings.MICROSOFT_CLIENT_ID = ""
    answer = browser(alice).post("/mailboxes/connect/microsoft/", {"address": ADA})
    assert answer.status_code == 403
    assert "MICROSOFT_CLIENT_ID is not set" in answer.content.decode()


def test_unknown_provider_is_not_found(alice: User) -> None:
    assert (
        browser(alice).post("/mailboxes/connect/aol/", {"address": "a@x.example"}).status_code
        == 404
    )


@pytest.mark.parametrize(
    ("answer", "named", "granted", "words"),
    [
        ("state={state}&code={code}", "ada@gmail.com", "", "ada@gmail.com is connected."),
        ("state={state}&code={code}", "other@gmail.com", "", "Google names another address"),
        (
            "state={state}&code={code}",
            "ada@gmail.com",
            COMPOSE_SCOPE,
            "gmail.readonly was not given",
        ),
        ("state=wrong&code={code}", "ada@gmail.com", "", "belongs to another sign-in"),
        ("error=access_denied&state={state}", "ada@gmail.com", "", "The access was not allowed"),
    ],
)
def test_google_connects_only_the_asked_address(
    alice: User,
    gmail: GmailServer,
    settings: Any,
    answer: str,
    named: str,
    granted: str,
    words: str,
) -> None:
    settings.GOOGLE_CLIENT_ID, settings.GOOGLE_CLIENT_SECRET = (
        CLIENT["client_id"],
        CLIENT["client_secret"],
    )
    window = browser(alice)
    begun = window.post("/mailboxes/connect/gmail/", {"address": "ada@gmail.com"})["Location"]
    asked = dict(parse_qsl(urlsplit(begun).query))
    assert (asked["code_challenge_method"], asked["login_hint"]) == ("S256", "ada@gmail.com")
    assert asked["redirect_uri"] == f"{settings.MAILHUB_PUBLIC_URL}/mailboxes/connect/gmail/answer/"

    gmail.granted_scope = granted or gmail.granted_scope
    given = answer.format(state=asked["state"], code=gmail.code(named, asked))
    back = window.get(f"/mailboxes/connect/gmail/answer/?{given}", follow=True)

    assert words in back.content.decode()
    assert Mailbox.objects.exists() is ("is connected" in words)
