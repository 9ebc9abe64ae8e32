"""Discovery of a mailbox's servers from its address: a table, DNS SRV records, and the domain's own
autoconfig file.

The result is only a proposal. Every connection goes through the host filter, and nothing is saved
before the person has signed in to both servers. No third party is asked, because the question would
reveal who has an account here.
"""

import http.client
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree.ElementTree import Element

import defusedxml.ElementTree
from django.conf import settings

from accounts.infra.database import give_back_connection
from accounts.infra.foreign_text import parse_number
from accounts.infra.safe_hosts import Endpoint, HostError
from accounts.infra.safe_http import exchange

SECONDS = 4.0  # for one lookup
ALL_SECONDS = 12.0  # for all lookups: a person waits, and so does a thread of the web server
LARGEST_FILE = 64 * 1024
Provider = Literal["imap", "gmail", "microsoft"]
Lookup = Callable[[str, str], Sequence[str]]  # name and kind of record
Fetch = Callable[[str, str], str]  # host and path; returns the text or ""

# Domain: IMAP host, SMTP host, and the hint for the person. From the providers' own help pages,
# read in November 2026.
TABLE: dict[str, tuple[str, str, str]] = {
    "aol.com": ("imap.aol.com", "smtp.aol.com", "app_password"),
    "fastmail.com": ("imap.fastmail.com", "smtp.fastmail.com", "app_password"),
    "gmx.de": ("imap.gmx.net", "mail.gmx.net", "allow_imap"),
    "gmx.net": ("imap.gmx.net", "mail.gmx.net", "allow_imap"),
    "icloud.com": ("imap.mail.me.com", "smtp.mail.me.com:587", "app_password"),
    "ionos.de": ("imap.ionos.de", "smtp.ionos.de", ""),
    "mailbox.org": ("imap.mailbox.org", "smtp.mailbox.org", ""),
    "me.com": ("imap.mail.me.com", "smtp.mail.me.com:587", "app_password"),
    "posteo.de": ("posteo.de", "posteo.de", ""),
    "t-online.de": ("secureimap.t-online.de", "securesmtp.t-online.de", "mail_password"),
    "web.de": ("imap.web.de", "smtp.web.de:587", "allow_imap"),
    "yahoo.com": ("imap.mail.yahoo.com", "smtp.mail.yahoo.com", "app_password"),
    "zoho.com": ("imap.zoho.com", "smtp.zoho.com", "app_password"),
}
BY_OAUTH: dict[str, Provider] = {
    "gmail.com": "gmail", "googlemail.com": "gmail", "outlook.com": "microsoft", "hotmail.com": "microsoft",
    "live.com": "microsoft", "msn.com": "microsoft",
}  # fmt: skip
# The MX host of a company's own domain shows which provider hosts its mail.
BY_MX: tuple[tuple[str, Provider], ...] = (
    (".google.com", "gmail"),
    (".googlemail.com", "gmail"),
    (".mail.protection.outlook.com", "microsoft"),
)
# RFC 8314: implicit TLS first. RFC 6186: the names of the records.
SRV = {
    "imap": (("_imaps._tcp", "tls"), ("_imap._tcp", "starttls")),
    "smtp": (("_submissions._tcp", "tls"), ("_submission._tcp", "starttls")),
}


@dataclass(frozen=True, kw_only=True)
class Found:
    """Suggested servers for an address.

    `how` says where the suggestion is from; `hint` names what a person must know first.
    """

    provider: Provider = "imap"
    imap: str = ""
    smtp: str = ""
    username: str = ""
    how: Literal["table", "srv", "autoconfig", "mx", "sandbox", "nothing"] = "nothing"
    hint: str = ""


def discover(address: str, *, lookup: Lookup | None = None, fetch: Fetch | None = None) -> Found:
    """Return how to connect an address; the usual names in its domain are never guessed."""
    ends_at = time.monotonic() + ALL_SECONDS

    def ask(name: str, kind: str) -> Sequence[str]:
        return (lookup or _dns)(name, kind) if time.monotonic() < ends_at else []

    def get(host: str, path: str) -> str:
        return (fetch or fetch_text)(host, path) if time.monotonic() < ends_at else ""

    if servers := settings.MAILHUB_SANDBOX_SERVERS_OF(address.strip().lower()):
        return Found(imap=servers[0], smtp=servers[1], username=address, how="sandbox")
    domain = address.rpartition("@")[2].strip().lower()
    if provider := BY_OAUTH.get(domain):
        return Found(provider=provider, how="table")
    if domain in TABLE:
        imap, smtp, hint = TABLE[domain]
        return Found(
            imap=_with_port(imap, 993),
            smtp=_with_port(smtp, 465),
            username=address,
            how="table",
            hint=hint,
        )
    for server in ask(domain, "MX"):
        name = f".{server.rpartition(' ')[2].rstrip('.').lower()}"
        for ending, provider in BY_MX:
            if name.endswith(ending):
                return Found(provider=provider, how="mx")
    imap, smtp = _by_srv(domain, "imap", ask), _by_srv(domain, "smtp", ask)
    if imap and smtp:
        return Found(imap=imap, smtp=smtp, username=address, how="srv")
    return _by_autoconfig(address, domain, get) or Found(username=address)


def _with_port(host: str, port: int) -> str:
    return host if ":" in host else f"{host}:{port}"


def _by_srv(domain: str, kind: str, ask: Lookup) -> str:
    for name, security in SRV[kind]:
        for record in sorted(ask(f"{name}.{domain}", "SRV"), key=lambda each: int(each.split()[0])):
            _, _, port, host = record.split()
            if host != ".":  # RFC 2782: the domain does not offer the service
                return f"{host.rstrip('.').lower()}:{port}:{security}"
    return ""


def _dns(name: str, kind: str) -> Sequence[str]:
    # Imported here because loading takes time and few processes ever connect a mailbox.
    import dns.exception
    import dns.resolver

    give_back_connection()
    try:
        return [record.to_text() for record in dns.resolver.resolve(name, kind, lifetime=SECONDS)]
    except (dns.exception.DNSException, ValueError):
        return []


# --- The domain's own file (https://wiki.mozilla.org/Thunderbird:Autoconfiguration)
# -----------------------------------


def _by_autoconfig(address: str, domain: str, fetch: Fetch) -> Found | None:
    for host, path in (
        (f"autoconfig.{domain}", "/mail/config-v1.1.xml"),
        (domain, "/.well-known/autoconfig/mail/config-v1.1.xml"),
    ):
        text = fetch(host, path)
        found = _read(text, address) if text else None
        if found:
            return found
    return None


def fetch_text(host: str, path: str) -> str:
    """Return the text of one GET over TLS to a checked address, or an empty text. Redirects are not
    followed.
    """
    try:
        with exchange(
            Endpoint(host=host, port=443, security="tls"),
            "GET",
            path,
            headers={"Accept": "text/xml"},
            seconds=SECONDS,
            ports=(443,),
        ) as answer:
            return answer.read(LARGEST_FILE).decode() if answer.status == http.HTTPStatus.OK else ""
    except (HostError, OSError, http.client.HTTPException, ValueError):
        return ""


def _read(text: str, address: str) -> Found | None:
    """Return the first secure IMAP and SMTP servers in a config file, or None without both."""
    try:
        # Entities could grow without bound.
        root = defusedxml.ElementTree.fromstring(text, forbid_dtd=True)
    except (defusedxml.ElementTree.ParseError, defusedxml.DefusedXmlException):
        return None
    imap, smtp = _server(root, "incomingServer", "imap"), _server(root, "outgoingServer", "smtp")
    if imap is None or smtp is None:
        return None
    local = address.rpartition("@")[0]
    username = (
        (imap[1] or address).replace("%EMAILADDRESS%", address).replace("%EMAILLOCALPART%", local)
    )
    return Found(imap=imap[0], smtp=smtp[0], username=username, how="autoconfig")


def _server(root: Element, tag: str, kind: str) -> tuple[str, str] | None:
    for server in root.iter(tag):
        said = {child.tag: (child.text or "").strip() for child in server}
        security = {"SSL": "tls", "STARTTLS": "starttls"}.get(said.get("socketType", ""))
        if (
            server.get("type") == kind
            and security
            and said.get("hostname")
            and parse_number(said.get("port", ""), digits=5)
        ):
            return f"{said['hostname'].lower()}:{said['port']}:{security}", said.get("username", "")
    return None
