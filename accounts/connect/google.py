"""Access to a Gmail mailbox: OAuth 2.0 with PKCE, on the web or with a pasted answer, and the
refresh of its tokens.

https://developers.google.com/identity/protocols/oauth2 ; nothing here opens a browser.
"""

import base64
import hashlib
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode

import httpx2
from django.conf import settings

from accounts.connect.refreshing import CannotConnect, GrantEnded, NoToken
from accounts.infra.credentials import Secrets
from accounts.infra.database import give_back_connection
from accounts.infra.foreign_text import load_json
from accounts.infra.safe_hosts import tls_context
from accounts.infra.texts import join, translatable

SCOPES = "https://www.googleapis.com/auth/"
READ_SCOPE, COMPOSE_SCOPE = f"{SCOPES}gmail.readonly", f"{SCOPES}gmail.compose"
WANTED = (READ_SCOPE, COMPOSE_SCOPE)
EVERYTHING = {f"{SCOPES}gmail.modify", "https://mail.google.com/"}
SECONDS = 20.0
# Nothing listens there: the browser shows an error page, and its address is the answer to paste.
# https://developers.google.com/identity/protocols/oauth2/native-app#redirect-uri_loopback
PASTED_REDIRECT = "http://127.0.0.1:8910/"
# Errors of the token endpoint that concern mailhub's registration at Google, not the mailbox.
# Waiting does not help.
CLIENT_REFUSED = frozenset(
    {"invalid_client", "unauthorized_client", "deleted_client", "disabled_client"}
)
CHECK_CLIENT = translatable(
    "Google refused mailhub's OAuth client: it was deleted, or its secret has changed. Check GOOGLE_CLIENT_ID"
    " and GOOGLE_CLIENT_SECRET, or the file of GMAIL_CREDENTIALS_PATH. If the client is new, connect the mailbox again"
    " with `manage.py connect_mailbox gmail`."
)
READ_NEEDED = translatable(
    "The permission %(scope)s was not given, so the mailbox is not connected. mailhub needs it to find out if a mail"
    " left whose answer was lost. Sign in again and allow it.",
    scope=READ_SCOPE,
)
AGAIN = translatable(
    "`manage.py connect_mailbox gmail --address A --owner E` without --token-file prints a link to sign in with."
)


@dataclass(frozen=True, kw_only=True)
class Client:
    """The application as it is known to Google."""

    id: str
    secret: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Authorization:
    """A started sign-in: the page where the person goes, and the values to check the answer.

    The caller keeps it.
    """

    url: str
    redirect_uri: str
    state: str
    verifier: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Grant:
    """The access that a person allowed: the secrets of the new mailbox, and the permissions with
    Google's names.
    """

    secrets: Secrets
    scopes: tuple[str, ...]

    @property
    def abilities(self) -> list[str]:
        return abilities_of(self.scopes)


def abilities_of(scopes: Sequence[str]) -> list[str]:
    """Return the permissions in mailhub's words."""
    granted = {READ_SCOPE, COMPOSE_SCOPE} if EVERYTHING & set(scopes) else set(scopes)
    return [
        *(["read"] if READ_SCOPE in granted else []),
        *(["draft", "send"] if COMPOSE_SCOPE in granted else []),
    ]


def load_client() -> Client:
    """Return the application, from the environment or from the file of the Google console.

    Raises CannotConnect.
    """
    if settings.GOOGLE_CLIENT_ID:
        return Client(id=settings.GOOGLE_CLIENT_ID, secret=settings.GOOGLE_CLIENT_SECRET)
    if not settings.GMAIL_CREDENTIALS_PATH:
        raise CannotConnect(
            "Set GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET, or GMAIL_CREDENTIALS_PATH."
        )
    content = _json_of(Path(settings.GMAIL_CREDENTIALS_PATH))
    try:
        given = content.get("installed") or content["web"]
        return Client(id=str(given["client_id"]), secret=str(given.get("client_secret", "")))
    except (KeyError, TypeError, AttributeError):
        raise CannotConnect(
            "The file of GMAIL_CREDENTIALS_PATH is not one of an OAuth client."
        ) from None


def begin(
    client: Client,
    *,
    redirect_uri: str = PASTED_REDIRECT,
    scopes: Sequence[str] = WANTED,
    login_hint: str = "",
) -> Authorization:
    """Begin a sign-in and ask for a refresh token.

    Permissions that were given before stay (incremental).
    """
    state, verifier = secrets.token_urlsafe(24), secrets.token_urlsafe(64)
    challenge = (
        base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    )
    asked = {
        "client_id": client.id,
        "redirect_uri": redirect_uri,
        "response_type": "code",
        "scope": " ".join(scopes),
        "access_type": "offline",
        "include_granted_scopes": "true",
        "prompt": "consent",
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "login_hint": login_hint,
    }
    url = f"{settings.GOOGLE_AUTH_URI}?{urlencode({name: value for name, value in asked.items() if value})}"
    return Authorization(url=url, redirect_uri=redirect_uri, state=state, verifier=verifier)


def finish(client: Client, authorization: Authorization, answer: str) -> Grant:
    """Exchange the answer for a grant: an address with code and state, or only the code.

    Raises CannotConnect.
    """
    code = _code_in(answer.strip(), authorization)
    status, content = _post_token_request(
        {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": authorization.redirect_uri,
            "client_id": client.id,
            "client_secret": client.secret,
            "code_verifier": authorization.verifier,
        }
    )
    if content.get("error") in CLIENT_REFUSED:
        raise CannotConnect(CHECK_CLIENT)
    if content.get("error") == "redirect_uri_mismatch":
        raise CannotConnect(
            translatable(
                "The OAuth client at Google does not name %(address)s as a redirect URI.",
                address=authorization.redirect_uri,
            )
        )
    if status != 200 or not content.get("refresh_token") or not content.get("access_token"):
        raise CannotConnect(
            "Google did not accept this code. It is valid once, for a few minutes. Begin again."
        )
    return _require_read(
        _build_grant(content, {"client_id": client.id, "client_secret": client.secret})
    )


def grant_in_file(path: Path) -> Grant:
    """Return the grant of an authorized-user file, as google-auth writes it, with refreshed tokens.

    Raises CannotConnect if the grant no longer holds.
    """
    if not path.is_file():
        raise _refuse_file(f"There is no token file at {path}.")
    content = _json_of(path)
    known = {name: content.get(name) for name in ("client_id", "client_secret", "refresh_token")}
    if not all(isinstance(value, str) and value for value in known.values()):
        raise _refuse_file(f"{path} is no authorized-user file with a refresh token.")
    scopes = content.get("scopes") or ()
    scopes = scopes.split() if isinstance(scopes, str) else scopes
    try:
        renewed = refresh(Secrets(known | {"scopes": [str(scope) for scope in scopes]}))
    except GrantEnded:
        raise _refuse_file(f"Google does not take the token of {path} any more.") from None
    except NoToken as error:
        if error.detail:
            raise _refuse_file(
                f"Google does not take the OAuth client that {path} names."
            ) from None
        raise CannotConnect("Google gave no access token right now. Try again later.") from None
    return _require_read(Grant(secrets=Secrets(renewed), scopes=tuple(renewed["scopes"])))


def refresh(known: Secrets) -> dict[str, Any]:
    """Return the secrets with a new access token. Raises GrantEnded or NoToken.

    Google may also send another refresh token; the newest is kept.
    """
    client_secret = known["client_secret"]
    if known["client_id"] == settings.GOOGLE_CLIENT_ID:
        client_secret = settings.GOOGLE_CLIENT_SECRET  # it may have been changed since
    try:
        status, content = _post_token_request(
            {
                "grant_type": "refresh_token",
                "refresh_token": known["refresh_token"],
                "client_id": known["client_id"],
                "client_secret": client_secret,
            }
        )
    except CannotConnect:
        raise NoToken from None
    if status != 200 or "access_token" not in content:
        if content.get("error") == "invalid_grant":
            raise GrantEnded
        raise NoToken(detail=CHECK_CLIENT if content.get("error") in CLIENT_REFUSED else "")
    return dict(_build_grant(content, known).secrets)


def address_of(grant: Grant) -> str:
    """Return the address of the grant's mailbox, as Gmail names it. Raises CannotConnect."""
    url = f"{settings.GMAIL_BASE_URL.rstrip('/')}/gmail/v1/users/me/profile"
    try:
        give_back_connection()
        answer = httpx2.get(
            url,
            headers={"authorization": f"Bearer {grant.secrets['access_token']}"},
            timeout=SECONDS,
            follow_redirects=False,
            trust_env=False,
            verify=tls_context(),
        )
        if answer.status_code == 200:
            return str(answer.json()["emailAddress"])
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        pass
    raise CannotConnect(
        "Gmail did not answer with this access. Check that the Gmail API is enabled for the project."
    )


def _code_in(answer: str, authorization: Authorization) -> str:
    if "?" not in answer and "=" not in answer:
        if not answer:
            raise CannotConnect("Nothing was pasted.")
        # The address bar may show it quoted: 4%2F0… The verifier still binds it to this sign-in.
        return unquote(answer)
    given = parse_qs(answer.partition("?")[2].partition("#")[0] or answer)
    if "error" in given:
        raise CannotConnect("The access was not allowed.")
    if not secrets.compare_digest(
        given.get("state", [""])[0].encode(), authorization.state.encode()
    ):
        raise CannotConnect("The answer belongs to another sign-in.")
    if "code" not in given:
        raise CannotConnect(
            "The answer has no code. Paste the whole address that the browser shows."
        )
    return given["code"][0]


def _require_read(grant: Grant) -> Grant:
    if "read" not in grant.abilities:
        raise CannotConnect(READ_NEEDED)
    return grant


def _build_grant(content: Mapping[str, Any], known: Mapping[str, Any]) -> Grant:
    scopes = tuple(str(content.get("scope") or "").split()) or tuple(known.get("scopes", ()))
    renewed = {
        "client_id": known["client_id"],
        "client_secret": known["client_secret"],
        "refresh_token": content.get("refresh_token") or known["refresh_token"],
        "access_token": content["access_token"],
        "expires_at": time.time() + float(content.get("expires_in") or 3600),
        "scopes": list(scopes),
    }
    return Grant(secrets=Secrets(renewed), scopes=scopes)


def _post_token_request(form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    """Post to the token endpoint once; return the status and the JSON object of the answer.

    Raises CannotConnect if Google cannot be reached.
    """
    try:
        give_back_connection()
        answer = httpx2.post(
            settings.GOOGLE_TOKEN_URI,
            data=dict(form),
            timeout=SECONDS,
            follow_redirects=False,
            trust_env=False,
            verify=tls_context(),
        )
        content = answer.json() if answer.content else {}
    except httpx2.HTTPError:
        raise CannotConnect("Google cannot be reached.") from None
    except ValueError:
        return 0, {}
    return answer.status_code, content if isinstance(content, dict) else {}


def _refuse_file(sentence: str) -> CannotConnect:
    """Return the error of a token file, which only a command shows."""
    return CannotConnect(join(sentence, AGAIN))


def _json_of(path: Path) -> dict[str, Any]:
    try:
        content = load_json(path.read_text())
    except OSError:
        raise CannotConnect(translatable("%(path)s cannot be read.", path=str(path))) from None
    except ValueError:
        raise CannotConnect(
            join(translatable("%(path)s contains no valid JSON.", path=str(path)), AGAIN)
        ) from None
    if not isinstance(content, dict):
        raise CannotConnect(
            join(translatable("%(path)s is not a file of this kind.", path=str(path)), AGAIN)
        )
    return content
