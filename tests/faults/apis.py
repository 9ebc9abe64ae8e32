"""Microsoft Graph and Gmail as providers of the proof: their test servers, which fail by the seed
at every call.
"""

import json
import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email import message_from_bytes, policy
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time
from typing import Any, ClassVar, Literal, Self
from urllib.parse import unquote

from tests.faults.content import content_of
from tests.faults.provider import Dice, Entry, Ledger
from tests.faults.smtp import DATE_IN_FRONT
from tests.support.servers.gmail import GmailServer
from tests.support.servers.gmail_data import Call, Sent
from tests.support.servers.gmail_data import Fault as GmailFault
from tests.support.servers.graph import GraphServer
from tests.support.servers.graph_data import SENDING, Accepted
from tests.support.servers.graph_data import Fault as GraphFault

GMAIL_SENDING = "drafts.send"
# The line that is put in front of it for Gmail (docs/decisions/0006).
MARK_IN_FRONT = re.compile(rb"\AX-Mailhub-Mark: [0-9a-f]{32}\r\n")
OTHERS_RATE = 0.2  # of the rate of the call that sends: each of those comes with many other calls
TOKEN_SECONDS = 315  # renewed when it has less than five minutes: here, every quarter of a minute


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """A fault of one call: before it is read, after it is read, or after its effect.

    It is a wait, and then a broken connection (0), the good answer (200), or another answer.
    """

    name: str
    at: Literal["unread", "read", "done"]
    status: int = 0
    seconds: float = 0
    retry_after: str = ""
    code: str = ""

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": self.retry_after} if self.retry_after else {}


LOST_ANSWERS = (
    Trouble(name="sent, then reset", at="done"),
    Trouble(name="sent, then silence", at="done", seconds=6),
    Trouble(name="sent, then 503", at="done", status=503),
    Trouble(name="sent, then 504", at="done", status=504),
)
OTHER_TROUBLE = (
    Trouble(name="reset before it was read", at="unread"),
    Trouble(name="reset once it was read", at="read"),
    Trouble(name="done, then reset", at="done"),
    Trouble(name="slow", at="read", status=200, seconds=1),
    Trouble(name="429", at="read", status=429, retry_after="1", code="ApplicationThrottled"),
    Trouble(name="503", at="read", status=503),
    Trouble(name="504", at="read", status=504),
)
SENDING_TROUBLE = (
    Trouble(name="sending reset before it was read", at="unread"),
    Trouble(name="sending reset once it was read", at="read"),
    *LOST_ANSWERS,
    Trouble(
        name="sending answered 429",
        at="read",
        status=429,
        retry_after="1",
        code="ApplicationThrottled",
    ),
    Trouble(name="sending answered 503", at="read", status=503),
    Trouble(name="sending answered 400", at="read", status=400, code="ErrorInvalidRecipients"),
    Trouble(name="slow before it was sent", at="read", status=200, seconds=2.5),
    Trouble(name="slow after it was sent", at="done", status=200, seconds=2.5),
    Trouble(name="sent long after everybody gave up", at="read", status=200, seconds=6),
)


class Api:
    """The common part of both: two dice, one of them for the call that sends."""

    def __init__(
        self, ledger: Ledger, *, seed: str, rate: float, sending: tuple[Trouble, ...]
    ) -> None:
        self.ledger = ledger
        self._sending = Dice(f"{seed} sending", sending, rate=rate)
        self._others = Dice(f"{seed} others", OTHER_TROUBLE, rate=rate * OTHERS_RATE)

    @property
    def faults(self) -> Counter[str]:
        return self._sending.met + self._others.met

    def connection(
        self, address: str, kind: str, *, change: str, number: int
    ) -> tuple[list[str], str]:
        raise NotImplementedError

    def end_sign_in(self, address: str) -> None:
        raise NotImplementedError

    def heal(self) -> None:
        self._sending.healed.set()
        self._others.healed.set()

    def _drawn(self, *, sends: bool) -> tuple[Trouble | None, Dice[Trouble]]:
        dice = self._sending if sends else self._others
        trouble = dice.draw()
        if trouble is not None:
            dice.meets(trouble.name)
        return trouble, dice


class Graph(Api):
    """Mailboxes of Microsoft 365.

    Graph writes the bytes itself, so its ledger records the content of the request.
    """

    PHASES: ClassVar[Mapping[tuple[str, bool, bool], Any]] = {
        ("unread", False, False): "drop_before",
        ("read", False, False): "drop_after",
        ("read", True, False): "answer",
        ("read", True, True): "late",
        ("done", False, False): "drop_after_effect",
        ("done", True, False): "answer_after_effect",
        ("done", True, True): "late_done",
    }

    def __init__(
        self, ledger: Ledger, *, seed: int, rate: float, sending: tuple[Trouble, ...]
    ) -> None:
        super().__init__(ledger, seed=f"{seed} graph", rate=rate, sending=sending)
        self._server = GraphServer()
        self._server.on_accept = self._accepted
        self._server.chooser = self._chosen

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self.heal()
        self._server.__exit__(*raised)

    def environment(self) -> dict[str, object]:
        return {"GRAPH_BASE_URL": self._server.url}

    def access(self, address: str, kind: str) -> dict[str, Any]:
        """Return access with drafts, or with the endpoints that make and send a mail in one
        call.
        """
        scopes = (
            ("Mail.Read", "Mail.Send")
            if kind == "graph at once"
            else ("Mail.ReadWrite", "Mail.Send")
        )
        token = self._server.token(address, *scopes)
        secrets = {"access_token": token, "expires_at": time() + 24 * 3600, "refresh_token": "none"}
        return {"provider": "microsoft", "secrets": secrets, "scopes": list(scopes)}

    def calls(self) -> Counter[str]:
        """Count the calls by the marker of the mail, which stays on a message wherever it goes."""
        store = self._server.store
        with store.lock:
            boxes = (*store.items.values(), store.purged)
            items = {id_: item for box in boxes for id_, item in box.items()}
        found: Counter[str] = Counter()
        for hit in self._server.sends():
            if hit.action == "sendMail":
                found[str(message_from_bytes(hit.body)["Message-ID"])] += 1
            else:
                item = items.get(unquote(hit.path).split("/")[-2])
                found[next(iter(item.extended.values())) if item else hit.path] += 1
        return found

    def _chosen(self, action: str) -> GraphFault | None:
        trouble, dice = self._drawn(sends=action in SENDING)
        if trouble is None:
            return None
        phase = self.PHASES[trouble.at, trouble.status != 0, trouble.status == 200]
        return GraphFault(
            phase=phase,
            status=trouble.status,
            code=trouble.code or "ErrorInternalServerError",
            headers=tuple(trouble.headers.items()),
            pause=lambda: dice.healed.wait(trouble.seconds),
        )

    def _accepted(self, accepted: Accepted) -> None:
        message = message_from_bytes(accepted.source, policy=policy.default)
        self.ledger.add(
            Entry(
                message_id=accepted.marker,
                sender=accepted.sender,
                recipients=accepted.recipients,
                sha256="",
                content=content_of(message),
                at=accepted.at,
            )
        )


class Gmail(Api):
    """Mailboxes of Gmail, whose access tokens are renewed often."""

    def __init__(
        self, ledger: Ledger, *, seed: int, rate: float, sending: tuple[Trouble, ...]
    ) -> None:
        super().__init__(ledger, seed=f"{seed} gmail", rate=rate, sending=sending)
        self._server = GmailServer()
        self._server.token_seconds = TOKEN_SECONDS
        self._server.clients["mailhub.apps.example"] = "none"
        self._server.chooser, self._server.cuts_unread = self._chosen, self._is_cut
        self._server.on_sent = self._sent
        self._met = threading.local()  # by the current call of this thread of the server
        self._names: dict[str, str] = {}
        self._calls: Counter[str] = Counter()
        self._folder = TemporaryDirectory()

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *ended: object) -> None:
        self.heal()
        self._folder.cleanup()
        self._server.__exit__(*ended)

    def environment(self) -> dict[str, object]:
        return {"GMAIL_BASE_URL": self._server.url, "GOOGLE_TOKEN_URI": self._server.token_uri}

    def access(self, address: str, kind: str) -> dict[str, Any]:
        secrets = {
            "client_id": "mailhub.apps.example",
            "client_secret": "none",
            "refresh_token": self._server.signed_in(address),
            "access_token": "",
            "expires_at": 0,
            "scopes": self._server.granted_scope.split(),
        }
        return {"provider": "gmail", "secrets": secrets, "scopes": ["read", "draft", "send"]}

    def connection(
        self, address: str, kind: str, *, change: str, number: int
    ) -> tuple[list[str], str]:
        """Sign in again, and write that into a file as google-auth does."""
        self._server.ended.discard(address)
        path = Path(self._folder.name) / "token.json"
        path.write_text(json.dumps(self.access(address, kind)["secrets"]))
        return ["gmail", "--token-file", str(path)], ""

    def end_sign_in(self, address: str) -> None:
        self._server.end_sign_in(address)

    def calls(self) -> Counter[str]:
        return self._calls

    def _is_cut(self, path: str) -> bool:
        """Draw the fault of the call, and return True if it strikes at once. A later one is kept
        for the call.
        """
        if path == "/token":
            self._met.trouble = None
            return False
        trouble, self._met.dice = self._drawn(sends=path.partition("?")[0].endswith("/drafts/send"))
        self._met.trouble = trouble
        return trouble is not None and trouble.at == "unread"

    def _chosen(self, call: Call) -> GmailFault | None:
        if call.inside:
            return None
        self._remember_drafts(call.address)
        if call.name == GMAIL_SENDING:
            self._calls[self._names.get(call.draft, call.draft)] += 1
        trouble, dice = self._met.trouble, getattr(self._met, "dice", None)
        if trouble is None or dice is None:
            return None
        return GmailFault(
            name=call.name,
            status=trouble.status,
            after=trouble.at == "done",
            headers=trouble.headers,
            pause=lambda: dice.healed.wait(trouble.seconds),
        )

    def _remember_drafts(self, address: str) -> None:
        """Keep the Message-ID of each draft: the call that sends it may come after it is gone, because
        it was sent, or destroyed while the worker was frozen.
        """
        box = self._server.box(address)
        for draft, name in list(box.drafts.items()):
            if (stored := box.messages.get(name)) is not None:
                self._names[draft] = stored.header("Message-ID").strip()

    def _sent(self, sent: Sent) -> None:
        self.ledger.add(
            Entry(
                message_id=sent.message_id,
                sender=sent.sender,
                recipients=sent.recipients,
                sha256=sha256(
                    DATE_IN_FRONT.sub(b"", MARK_IN_FRONT.sub(b"", sent.content))
                ).hexdigest(),
                at=datetime.fromtimestamp(sent.at, UTC),
            )
        )
