"""Programs that may ask for access: they register themselves, or are known by the address of their
metadata document.
"""

import http.client
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import ParseResult

from allauth.idp.oidc.models import Client
from django.conf import settings
from django.core.exceptions import ValidationError

from accounts.access.provider_calls import limit_waiting
from accounts.access.quotas import Quota, take
from accounts.infra.foreign_text import load_json, parse_url
from accounts.infra.problems import Problem
from accounts.infra.safe_hosts import Endpoint, HostError
from accounts.infra.safe_http import exchange
from accounts.infra.texts import translatable
from accounts.models import SCOPES
from accounts.oauth import redirects

HOUR = 3600
DOCUMENT_BYTES = 8 * 1024
DOCUMENT_SECONDS = 5.0
NAME_CHARS = 100
DEVICE_GRANT = Client.GrantType.DEVICE_CODE.value
GRANTS = (
    Client.GrantType.AUTHORIZATION_CODE.value,
    Client.GrantType.REFRESH_TOKEN.value,
    DEVICE_GRANT,
)
_BUSY = translatable("Too many programs have registered. Wait a little, then try again.")
OF_NETWORK = Quota(name="oauth-registrations", amount=20, seconds=HOUR, refusal=_BUSY)
DEVICES = Quota(name="oauth-device-codes", amount=60, seconds=HOUR, refusal=_BUSY)
_FETCHES = translatable("Too many documents of programs were read. Wait a little, then try again.")
# Places of their own for those that strangers let us read: slow hosts must not hold up single sign-on.
OF_STRANGERS = "documents of strangers"
FETCHES = Quota(name="oauth-documents", amount=20, seconds=HOUR, refusal=_FETCHES)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program as a person reads it on the consent page.

    `is_known`: an administrator has added it. `document` is the address of its metadata document,
    which proves that the owner of that address knows the program; it is empty for a program that
    registered itself under a name of its choice. `returns_to` is the host that gets the answer.
    """

    name: str
    document: str
    returns_to: str
    is_known: bool = False
    is_local: bool = False
    app_scheme: str = ""


def find(client_id: object) -> Client | None:
    """Return the program with this id; None also for a text that cannot be an id."""
    if not isinstance(client_id, str) or not _is_plain(client_id):
        return None
    return Client.objects.filter(pk=client_id, type=Client.Type.PUBLIC).first()


def _is_plain(client_id: str) -> bool:
    return client_id.isascii() and client_id.isprintable()


def has_document(client_id: str) -> bool:
    """Return True if the id is the address of a metadata document."""
    return client_id.startswith("https:")


def describe(client: Client, redirect_uri: str = "", *, proven: bool = True) -> Program:
    """Return a program in the words of the consent page.

    Nothing proves which program asks for a device code: its `client_id` is public, and no redirect
    leads the answer to the right one.
    """
    returns_to = redirects.host_of(redirect_uri)
    return Program(
        name=name_of(client),
        document=client.id if proven and has_document(client.id) else "",
        returns_to=returns_to,
        is_known=proven and is_known(client),
        is_local=returns_to == "localhost",
        app_scheme=returns_to if returns_to.endswith(":") else "",
    )


def name_of(client: Client) -> str:
    """Return the program's own name in one line of printable letters."""
    text = "".join(letter if letter.isprintable() else " " for letter in client.name)
    return " ".join(text.split()) or "?"


def is_host_allowed(host: str) -> bool:
    """Return True if the settings let programs of this host connect."""
    if settings.MAILHUB_OAUTH_REGISTRATION == "listed":
        return host.lower() in {each.lower() for each in settings.MAILHUB_OAUTH_HOSTS}
    return bool(settings.MAILHUB_OAUTH_REGISTRATION == "on")


def is_document_allowed(url: str) -> bool:
    return is_host_allowed(parse_url(url).hostname or "")


def is_known(client: Client) -> bool:
    """Return True if an administrator has added the program by `create_program`."""
    return client.data is None


def is_allowed(client: Client) -> bool:
    """Return True if the program may still ask. The settings may have changed; they do not restrict
    the programs that an administrator has added.
    """
    if is_known(client):
        return True
    if has_document(client.id):
        return is_document_allowed(client.id)
    return all(is_host_allowed(redirects.host_of(uri)) for uri in client.get_redirect_uris())


def build(*, name: str, redirect_uris: list[str], device: bool, **more: Any) -> Client:
    """Return a program, not saved yet; raise ValidationError if a redirect is not allowed.

    It has no secret. The library's own forms hash one for each program, which takes a second. Only
    a program that asks for device codes gets them (`device`): anybody can begin one in its name.
    """
    redirects.check_redirects(redirect_uris)
    client = Client(name=name, type=Client.Type.PUBLIC, secret="", **more)
    client.name = name_of(client)[:NAME_CHARS]
    client.set_redirect_uris(redirect_uris)
    client.set_grant_types([each for each in GRANTS if device or each != DEVICE_GRANT])
    client.set_response_types(["code"])
    client.set_scopes(list(SCOPES))
    return client


def register(name: str, redirect_uris: list[str], *, device: bool) -> Client:
    """Save a program that registers itself; raise ValidationError if it may not."""
    client = build(name=name, redirect_uris=redirect_uris, device=device, data={"dcr": True})
    if not is_allowed(client):
        raise ValidationError("This server does not accept programs of this host.")
    client.save()
    return client


def add(name: str, redirect_uris: list[str], *, device: bool = False) -> Client:
    """Save a program that the administrator knows, whatever may register; raise ValidationError."""
    client = build(name=name, redirect_uris=redirect_uris, device=device, data=None)
    client.save()
    return client


# --- Metadata documents


def refresh(client_id: str, *, subject: str) -> None:
    """Read the metadata document of a program again if it is older than an hour.

    `subject` is the person or network that the fetch is counted for. Raises Problem if the document
    cannot be used. A program that registered itself has none, and nothing happens.
    """
    if not has_document(client_id):
        return
    from allauth.idp.oidc.internal import cimd  # brings requests

    known = find(client_id)
    if known is not None and not cimd.is_outdated(known):
        return
    try:
        if not _is_plain(client_id):
            raise ValueError("A person cannot tell the letters of its address apart.")
        parsed = cimd.validate_client_id(client_id)
        take(FETCHES, subject)
        with limit_waiting(OF_STRANGERS if subject.startswith("network:") else subject):
            client = _read_document(client_id, parsed)
    except (ValidationError, HostError, OSError, ValueError, http.client.HTTPException):
        raise Problem(
            "invalid_input",
            "The program's description could not be read, or is not valid.",
            status=400,
        ) from None
    Client.objects.update_or_create(
        pk=client.pk,
        defaults={
            field.attname: getattr(client, field.attname)
            for field in Client._meta.concrete_fields
            if not field.primary_key and field.name not in ("created_at", "secret")
        },
    )


def _read_document(client_id: str, parsed: ParseResult) -> Client:
    """Return the program that a document describes; raise ValueError or ValidationError.

    The host of the document is what the settings allow, so the redirects may lead anywhere that
    the document says. The rest of it is not kept: nothing here needs it, and anybody can write it.
    """
    document = _fetch(parsed)
    if not isinstance(document, dict) or document.get("client_id") != client_id:
        raise ValueError("The document is not about this program.")
    name: Any = document.get("client_name", parsed.hostname)
    uris: Any = document.get("redirect_uris")
    texts = isinstance(uris, list) and all(isinstance(each, str) for each in uris)
    if not isinstance(name, str) or not texts:
        raise ValueError("A member of the document has the wrong type.")
    grants = document.get("grant_types")
    return build(
        name=name,
        redirect_uris=uris,
        device=isinstance(grants, list) and DEVICE_GRANT in grants,
        id=client_id,
        data={"cimd": True, "updated_at": int(time.time())},
    )


def _fetch(parsed: ParseResult) -> Any:
    endpoint = Endpoint(host=parsed.hostname or "", port=parsed.port or 443, security="tls")
    with exchange(
        endpoint,
        "GET",
        parsed.path,
        headers={"Accept": "application/json"},
        seconds=DOCUMENT_SECONDS,
        ports={443},
    ) as answer:
        if answer.status != http.client.OK:
            raise ValueError("The document is not there.")
        body = answer.read(DOCUMENT_BYTES + 1)
    if len(body) > DOCUMENT_BYTES:
        raise ValueError("The document is too large.")
    return load_json(body)
