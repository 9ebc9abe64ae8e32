"""A host, a port and a security, read from text."""

import pytest

from accounts.infra import safe_hosts
from accounts.infra.safe_hosts import Endpoint
from tests.accounts.host_servers import NAME


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("imap.example.com:993", ("imap.example.com", 993, "tls"), id="IMAPS"),
        pytest.param("smtp.example.com:465", ("smtp.example.com", 465, "tls"), id="SMTPS"),
        pytest.param("imap.example.com:143", ("imap.example.com", 143, "starttls"), id="IMAP"),
        pytest.param(
            "smtp.example.com:587", ("smtp.example.com", 587, "starttls"), id="submission"
        ),
        pytest.param(
            "mail.example.com:8993:tls", ("mail.example.com", 8993, "tls"), id="named TLS"
        ),
        pytest.param(
            "mail.example.com:993:starttls",
            ("mail.example.com", 993, "starttls"),
            id="named STARTTLS",
        ),
        pytest.param("localhost:1143:plain", ("localhost", 1143, "plain"), id="named plain"),
        pytest.param("127.0.0.1:1143:plain", ("127.0.0.1", 1143, "plain"), id="IPv4"),
        pytest.param("[::1]:993", ("::1", 993, "tls"), id="IPv6"),
        pytest.param(
            "[2620:FE:0::fe]:143:tls", ("2620:fe::fe", 143, "tls"), id="IPv6 with security"
        ),
        pytest.param(
            "B\u00fccher.example.:993", ("xn--bcher-kva.example", 993, "tls"), id="international"
        ),
    ],
)
def test_endpoint_is_parsed_from_text(
    text: str, expected: tuple[str, int, safe_hosts.Security]
) -> None:
    host, port, security = expected
    assert Endpoint.parse(text) == Endpoint(host=host, port=port, security=security)


@pytest.mark.parametrize(
    ("text", "security"),
    [("localhost:1143", "plain"), ("localhost:993", "plain"), ("localhost:993:tls", "tls")],
)
def test_default_security_applies_if_the_text_names_none(text: str, security: str) -> None:
    assert Endpoint.parse(text, default_security="plain").security == security


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("imap.example.com", id="no port"),
        pytest.param("imap.example.com:", id="empty port"),
        pytest.param(":993", id="no host"),
        pytest.param("imap.example.com:0", id="port 0"),
        pytest.param("imap.example.com:65536", id="port too large"),
        pytest.param("imap.example.com:-1", id="negative port"),
        pytest.param("imap.example.com:imaps", id="port by name"),
        pytest.param("imap.example.com:\u0669\u0669\u0663", id="digits that are not ASCII"),
        pytest.param("imap.example.com:993:ssl", id="unknown security"),
        pytest.param("imap.example.com:993:", id="empty security"),
        pytest.param("imap.example.com:993:TLS", id="security in capitals"),
        pytest.param("imap.example.com:993:tls:x", id="too much"),
        pytest.param("imap.example.com:993\n", id="new line"),
        pytest.param("::1:993", id="IPv6 without brackets"),
        pytest.param("[::1]", id="IPv6 without port"),
        pytest.param("[::1%lo]:993", id="zone id"),
        pytest.param("[]:993", id="empty brackets"),
        pytest.param("[127.0.0.1]:993", id="IPv4 in brackets"),
        pytest.param("[localhost]:993", id="name in brackets"),
        pytest.param("127.1:993", id="odd address"),
        pytest.param("\u2060:993", id="nothing visible"),
        pytest.param("\u00fc" * 100 + ".example:993", id="label too long as an A-label"),
        pytest.param("imaps://imap.example.com:993", id="URL"),
    ],
)
def test_invalid_endpoint_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError) as error:
        Endpoint.parse(text)
    assert type(error.value) is ValueError
    assert str(error.value).endswith(".")


def test_unknown_security_cannot_make_a_plain_endpoint() -> None:
    with pytest.raises(ValueError, match="encryption"):
        Endpoint(host=NAME, port=993, security="TLS")  # type: ignore[arg-type]
