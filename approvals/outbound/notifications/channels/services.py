"""The check of the address of a person's chat or phone service, and the plugin that speaks to it.

Apprise is used for the format of each service only. Its plugins call `requests.post`; in the
modules of the plugins below, that name is a session of `accounts.infra.pinned_requests`, so every
connection passes the host filter. No plugin outside of the allow-list is ever imported.
"""

import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import Any

import requests
from django.conf import settings
from django.utils.module_loading import import_string

from accounts.infra.pinned_requests import PinnedSession
from accounts.infra.texts import translatable
from approvals.outbound.notifications.channels.allow_list import LENGTH, SERVICES, Service

HEADER = re.compile(r"authorization|x-[a-z0-9-]+", re.IGNORECASE)
_session: ContextVar[PinnedSession] = ContextVar("session of this notification")


class PinnedModule:
    """Stand-in for the module `requests` in a plugin; a name that is not here does not exist."""

    codes = requests.codes
    RequestException = requests.RequestException
    TooManyRedirects = requests.TooManyRedirects

    @staticmethod
    def request(method: str, url: str, **options: Any) -> requests.Response:
        """Send one request by the session of this notification."""
        return _session.get().request(method, url, **options)

    @staticmethod
    def get(url: str, **options: Any) -> requests.Response:
        return _session.get().request("GET", url, **options)

    @staticmethod
    def post(url: str, **options: Any) -> requests.Response:
        return _session.get().request("POST", url, **options)

    @staticmethod
    def put(url: str, **options: Any) -> requests.Response:
        return _session.get().request("PUT", url, **options)


@contextmanager
def using(session: PinnedSession) -> Iterator[None]:
    """Let the plugins of this thread use a session inside the block."""
    token = _session.set(session)
    try:
        yield
    finally:
        _session.reset(token)


def read_address(text: str) -> tuple[Service, Any]:
    """Return the service of an address and its plugin; raises ValueError with a sentence.

    Nothing is sent, and no name is resolved: each connection checks its host.
    """
    if len(text) > LENGTH or not text.isprintable() or not text.isascii() or " " in text:
        raise ValueError(translatable("Write the address in ASCII, without spaces."))
    service, found = _parse(text)
    _refuse_options(service, found)
    try:
        plugin = _load(service.plugin)(**{**found, **service.fixed, "asset": _asset()})
    except (TypeError, ValueError, LookupError):  # of Apprise, with the token in its text
        raise _unusable(service) from None
    if len(plugin) != 1 or not _sends_once(service, plugin):
        raise ValueError(
            translatable(
                "Name one target that needs no sign-in, such as %(example)s.",
                example=service.example,
            )
        )
    return service, plugin


def _parse(text: str) -> tuple[Service, dict[str, Any]]:
    for service in SERVICES:
        # The parsers raise ValueError for a host such as "[", and others for half an address.
        with suppress(ValueError, LookupError, TypeError):
            schema, found = text.partition(":")[0].lower(), None
            if schema in service.schemas:
                found = _load(service.plugin).parse_url(text)
            elif schema == "https":  # as the service itself shows it
                found = _load(service.plugin).parse_native_url(text)
            if found:
                return service, found
        if text.lower().startswith(tuple(f"{name}://" for name in service.schemas)):
            raise _unusable(service)
    raise ValueError(
        translatable(
            "mailhub does not know this kind of address. Use one of: %(examples)s",
            examples=", ".join(service.example for service in SERVICES),
        )
    )


def _unusable(service: Service) -> ValueError:
    return ValueError(
        translatable(
            "That is not an address of %(name)s. Write it as %(example)s.",
            name=service.name,
            example=service.example,
        )
    )


def _refuse_options(service: Service, found: Mapping[str, Any]) -> None:
    named = {str(name).lower() for name in found.get("qsd", {})}
    if service.name == "JSON":  # its query, and the headers that sign in
        named = {
            name
            for name in named
            if not (name[:1] == "-" or (name[:1] == "+" and HEADER.fullmatch(name[1:])))
        }
    if refused := sorted(named - service.options):
        raise ValueError(
            translatable(
                "The option %(option)s is not allowed. Remove it from the address.",
                option=refused[0],
            )
        )


def _sends_once(service: Service, plugin: Any) -> bool:
    """Return True if one notification is one message, without a sign-in, a lookup or a new room."""
    if service.name in ("Telegram", "ntfy"):
        return len(plugin.targets if service.name == "Telegram" else plugin.topics) == 1
    if service.name == "Slack":
        return len(plugin.channels) == 1 and "@" not in (plugin.channels[0] or "")[1:]
    if service.name != "Matrix" or plugin.mode != "off":
        return True
    # With a password Apprise signs in, and registers an account if that fails. It creates a room
    # for an alias that does not exist.
    return not plugin.user and len(plugin.rooms) == 1 and plugin.rooms[0].startswith("!")


@cache
def _load(path: str) -> Any:
    """Return a plugin's class, bound to the pinned sessions."""
    logging.getLogger("apprise").disabled = True  # its lines hold tokens and contents
    plugin = import_string(path)
    vars(sys.modules[plugin.__module__])["requests"] = PinnedModule
    return type(plugin.__name__, (_NeverWaiting, plugin), {})


class _NeverWaiting:
    """Plugin that does not sleep: how long it would wait is in the answer of the service."""

    def throttle(self, *_: Any, **__: Any) -> None:
        """Go on; the worker limits the rate of each channel."""


@cache
def _asset() -> Any:
    """Return Apprise's settings: no files, no pictures of others, and mailhub's name."""
    from apprise import AppriseAsset

    return AppriseAsset(
        app_id="mailhub",
        app_desc="mailhub",
        app_url=settings.MAILHUB_PUBLIC_URL,
        image_url_mask="",
        image_url_logo="",
        http_redirects=False,
        async_mode=False,
        interpret_emojis=False,
        storage_mode="memory",
    )
