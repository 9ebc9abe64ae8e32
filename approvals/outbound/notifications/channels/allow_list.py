"""The chat and phone services that Apprise may speak to.

The pages show them, so they are apart from the code that loads Apprise and `requests`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LENGTH = 2000  # of an address


@dataclass(frozen=True, kw_only=True)
class Service:
    """A service: its plugin, and the options that an address may have.

    An option can name a file of this server, a second host or a number of retries, so only harmless
    ones are listed. `limit` is how many requests one notification takes.
    """

    name: str
    plugin: str
    schemas: tuple[str, ...]
    example: str
    options: frozenset[str] = frozenset()
    limit: int = 1
    fixed: Mapping[str, Any] = field(default_factory=dict)


_PLUGINS = "apprise.plugins"
SERVICES = (
    Service(
        name="Slack",
        plugin=f"{_PLUGINS}.slack.NotifySlack",
        schemas=("slack",),
        example="https://hooks.slack.com/services/…",
        options=frozenset({"mode", "to"}),
    ),
    Service(
        name="Microsoft Teams",
        plugin=f"{_PLUGINS}.workflows.NotifyWorkflows",
        schemas=("workflow", "workflows"),
        example="https://….logic.azure.com/workflows/…",
        options=frozenset(
            {"api-version", "ver", "sp", "sv", "sig", "signature", "pa", "powerautomate", "route"}
        ),
    ),
    Service(
        name="Discord",
        plugin=f"{_PLUGINS}.discord.NotifyDiscord",
        schemas=("discord",),
        example="https://discord.com/api/webhooks/…",
        fixed={"avatar": False},
    ),
    Service(
        name="Telegram",
        plugin=f"{_PLUGINS}.telegram.NotifyTelegram",
        schemas=("tgram",),
        example="tgram://BOT_TOKEN/CHAT_ID",
        options=frozenset({"silent", "thread", "to", "topic"}),
        fixed={"detect_owner": False, "preview": False},
    ),
    Service(
        name="ntfy",
        plugin=f"{_PLUGINS}.ntfy.NotifyNtfy",
        schemas=("ntfy", "ntfys"),
        example="ntfys://ntfy.example/TOPIC",
        options=frozenset({"auth", "mode", "priority", "to", "token"}),
    ),
    Service(
        name="Gotify",
        plugin=f"{_PLUGINS}.gotify.NotifyGotify",
        schemas=("gotify", "gotifys"),
        example="gotifys://gotify.example/TOKEN",
        options=frozenset({"priority"}),
    ),
    Service(
        name="Matrix",
        plugin=f"{_PLUGINS}.matrix.NotifyMatrix",
        schemas=("matrix", "matrixs"),
        example="matrixs://TOKEN@matrix.example/!ROOM:matrix.example",
        options=frozenset({"mode", "path"}),
        limit=3,  # who am I, join the room, send
        fixed={"discovery": False, "e2ee": False, "include_image": False},
    ),
    Service(
        name="JSON",
        plugin=f"{_PLUGINS}.custom_json.NotifyJSON",
        schemas=("json", "jsons"),
        example="jsons://host.example/path",
    ),
)
