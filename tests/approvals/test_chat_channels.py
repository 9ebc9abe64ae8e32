"""Notifications by chat and phone services, to receivers that are as strict as the services."""

import logging
import sys
from typing import Any

import pytest
import requests
from pytest_httpserver import HTTPServer

from accounts.infra import safe_hosts
from accounts.models import Mailbox, User
from approvals.models import NotificationChannel
from approvals.outbound.notifications.channels import services as services_module
from approvals.outbound.notifications.channels.allow_list import SERVICES
from approvals.outbound.notifications.channels.services import read_address
from tests.approvals.channel_messages import REVIEW, channel_of, send
from tests.approvals.notifications.conftest import Post, post
from tests.approvals.webhook_listener import httpserver
from tests.conftest import make_api
from tests.support.loopback import on_ports
from tests.support.servers.certificates import Authority, authority
from tests.support.servers.chat_services import ChatServices
from tests.support.servers.http import QuickServer

__all__ = ["authority", "httpserver", "post"]
pytestmark = pytest.mark.django_db
HOSTED = {
    "ntfy": "ntfy://{place}/topic",
    "Gotify": "gotify://{place}/gotifysecret",
    "Matrix": "matrix://matrixsecret@{place}/!room:matrix.example",
    "JSON": "json://{place}/hook",
}
FIXED = {
    "Slack": "slack://T0001/B0001/slacksecret",
    "Discord": "discord://123/discordsecret",
    "Telegram": "tgram://123:telegramsecret/42",
}
TEAMS = "workflows://{place}/flow1/teamssecret"


@pytest.fixture
def services(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> ChatServices:
    """Put the services whose hosts are in Apprise's own source on loopback."""
    for plugin, name, path in (
        ("slack.NotifySlack", "webhook_url", "/services"),
        ("discord.NotifyDiscord", "notify_url", "/discord"),
        ("telegram.NotifyTelegram", "notify_url", "/bot"),
    ):
        monkeypatch.setattr(f"apprise.plugins.{plugin}.{name}", httpserver.url_for(path))
    return ChatServices(httpserver)


def addresses(server: HTTPServer) -> dict[str, str]:
    place = f"127.0.0.1:{server.port}"
    return FIXED | {name: text.format(place=place) for name, text in HOSTED.items()}


@pytest.mark.parametrize("name", [*FIXED, *HOSTED])
def test_service_takes_the_message(alice: User, services: ChatServices, name: str) -> None:
    answer = send(channel_of(alice, "apprise", addresses(services.server)[name]))
    assert answer.result == "taken", answer
    assert answer.detail.startswith("20")
    (said,) = services.said
    for part in ("1 mail waits for you", "It waits for you", "Delivery on Thursday", REVIEW):
        assert part in said.replace("\N{WORD JOINER}", "").replace("&nbsp;", " ")
    assert "apprise" not in str(services.bodies).lower()


def test_teams_workflow_takes_the_message_over_tls(
    alice: User, authority: Authority, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    safe_hosts.tls_context.cache_clear()
    try:
        with QuickServer(ssl_context=authority.server_context("127.0.0.1")) as server:
            settings.MAILHUB_LOOPBACK_FOR_PEOPLE = on_ports(server.port)
            services = ChatServices(server)
            address = TEAMS.format(place=f"127.0.0.1:{server.port}")
            assert send(channel_of(alice, "apprise", address)).result == "taken"
            assert "Delivery" in services.said[0]
            refused = send(channel_of(alice, "apprise", address.replace("teams", "other")))
            assert (refused.result, refused.code) == ("refused", "http_401")
            assert "DirectApiAuthorizationRequired" in refused.detail
    finally:
        safe_hosts.tls_context.cache_clear()


def test_every_service_is_tested() -> None:
    assert {service.name for service in SERVICES} == {*FIXED, *HOSTED, "Microsoft Teams"}


@pytest.mark.parametrize("name", [*FIXED, *HOSTED])
def test_words_of_a_mail_mention_and_link_nothing(
    alice: User, bob: User, mailbox: Mailbox, services: ChatServices, post: Post, name: str
) -> None:
    words = "@everyone <!channel> <@U123> [pay](https://evil.example) **now** <i>x</i> &#64;here"
    channel = channel_of(bob, "apprise", addresses(services.server)[name])
    NotificationChannel.objects.filter(pk=channel.pk).update(content="preview")
    make_api(alice, mailbox, name=words).propose(subject=words, body=words)

    post.sweep()

    (said,) = services.said
    assert said.replace("\N{WORD JOINER}", "").count("everyone") == 4  # in the title too
    for mark in (
        "@everyone",
        "<!channel",
        "!channel",
        "<@U",
        "](",
        "**",
        "<i>",
        "://evil",
        "&#64;",
    ):
        assert mark not in said


@pytest.mark.parametrize(
    ("status", "result"),
    [
        *((400, "refused"), (404, "gone"), (429, "not_sent"), (503, "not_sent")),
        *((500, "unknown"), (302, "refused")),
    ],
)
def test_answer_decides_what_follows_and_nothing_is_repeated(
    alice: User, httpserver: HTTPServer, status: int, result: str
) -> None:
    other = httpserver.url_for("/internal")
    headers = {"Location": other, "Retry-After": "86400", "X-RateLimit-Remaining": "0"}
    httpserver.expect_request("/hook").respond_with_data(
        "busy \x1b[31m", status=status, headers=headers
    )
    address = addresses(httpserver)["JSON"]
    answer = send(channel_of(alice, "apprise", address))
    assert (answer.result, answer.code) == (result, f"http_{status}")
    assert "busy" in answer.detail
    assert answer.detail.isprintable()
    assert [request.path for request, _ in httpserver.log] == ["/hook"]


def test_service_that_asks_to_wait_is_not_asked_again(
    alice: User, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "apprise.plugins.discord.NotifyDiscord.notify_url", httpserver.url_for("/discord")
    )
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4102444800"}
    httpserver.expect_request("/discord/123/discordsecret").respond_with_data(
        "", status=429, headers=headers
    )
    answer = send(channel_of(alice, "apprise", FIXED["Discord"]))
    assert answer.result == "not_sent"
    assert len(httpserver.log) == 1


def test_no_line_of_the_log_holds_a_secret_or_a_mail(
    alice: User, services: ChatServices, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        for address in addresses(services.server).values():
            send(channel_of(alice, "apprise", address))
            send(channel_of(alice, "apprise", address.replace("secret", "wrong")))
    assert len(services.said) > len(HOSTED)
    receivers = ("werkzeug", "pytest_httpserver")
    ours = [each for each in caplog.records if not each.name.startswith(receivers)]
    written = "\n".join(str(each.msg) + each.getMessage() for each in ours)
    for word in ("secret", "wrong", "Delivery", "Support bot"):
        assert word not in written


REFUSED = [
    "slack://T0001/B0001/slacksecret?template=/etc/passwd",
    "slack://xoxb-1234-1234-4ddbc191d40ee098/somebody@northwind.example",
    "slack://xoxb-1234-1234-4ddbc191d40ee098/a,b",
    "discord://123/discordsecret?href=https://evil.example",
    "discord://123/discordsecret?template=file:///etc/passwd",
    "tgram://123:telegramsecret/",
    "tgram://123:",
    "tgram://123:/?to=,",
    "tgram://123:telegramsecret/1/2",
    "ntfys://ntfy.example/topic?actions=http,Approve,https://hub.example/",
    "ntfys://ntfy.example/topic?attach=file:///etc/passwd",
    "ntfys://ntfy.example/one/two",
    "matrixs://person:password@matrix.example/!room:matrix.example",
    "matrixs://token@matrix.example/!room:matrix.example?discovery=yes",
    "jsons://host.example/?verify=no",
    "jsons://host.example/?retry=9",
    "jsons://host.example/?redirect=yes",
    "jsons://host.example/?rto=900",
    "jsons://host.example/?+Host=internal",
    "jsons://host.example/?+Content-Length=1",
    "jsons://host.example/?:message=",
    "jsons://host.example/?method=DELETE",
    "jsons://host.example/\u2028",
    "mailto://person:password@northwind.example",
    "mailtos://northwind.example",
    "syslog://",
    "dbus://",
    "windows://",
    "apprise://127.0.0.1/token",
    "file:///etc/passwd",
    "https://host.example/hook",
    "javascript:alert(1)",
    "slack://",
    "ntfy://",
    "json://",
    "",
]


@pytest.mark.parametrize("address", REFUSED)
def test_address_outside_the_allow_list_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"[A-Z].+\.|Use one of"):
        read_address(address)


def test_only_plugins_of_the_table_are_imported_and_pinned() -> None:
    for service in SERVICES:
        plugin = services_module._load(service.plugin)
        names = vars(sys.modules[plugin.__mro__[2].__module__])
        assert names["requests"] is services_module.PinnedModule
        assert not any(value is requests for value in names.values())
    imported = {name.split(".")[2] for name in sys.modules if name.startswith("apprise.plugins.")}
    assert imported == {"base", *(service.plugin.split(".")[2] for service in SERVICES)}
