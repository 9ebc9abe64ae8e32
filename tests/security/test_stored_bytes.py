"""An attacker can write to the database, without a key: nothing read from it is run or trusted."""

import base64
import os
import pickle
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from django.conf import settings as configured
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.utils import timezone

from accounts.models import User
from mailhub import settings as production
from mailhub.agent.answering import UNREADABLE
from mailhub.agent.models import Checkpoint, Thread, ToolCall
from tests.mailhub.agent.conftest import Chat, agent_api, chat, door, model
from tests.security.test_content_at_rest import everything
from tests.support.servers.model import ModelServer, Says
from tests.support.sources import ROOT, product

__all__ = ["agent_api", "chat", "door", "model"]


class RunsWhenRead:
    """An object whose pickle creates a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def in_the_database(settings: Any, db: None) -> Iterator[None]:
    """Use the production cache; the cache of the tests is in memory."""
    settings.CACHES = production.CACHES
    yield
    cache.clear()


def kept_conversation(chat: Chat, model: ModelServer) -> Checkpoint:
    model.says(Says(text="The word is xylophone."))
    chat.ask("Say a word.", threadId="t")
    return Checkpoint.objects.get()


def stored(kept: Checkpoint) -> bytes:
    """Return the bytes in the database."""
    return bytes(Checkpoint.objects.values_list("content", flat=True).get(pk=kept.pk))


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(120)
def test_forged_conversation_runs_nothing_and_says_so(
    chat: Chat, model: ModelServer, tmp_path: Path
) -> None:
    kept_conversation(chat, model)
    proof = tmp_path / "ran"
    call = ormsgpack.packb(["os", "system", f"touch {proof}"])
    forged = ormsgpack.packb([{"channel_values": {"messages": []}}, ormsgpack.Ext(0, call)])
    Checkpoint.objects.update(type="msgpack", content=forged)

    answer = chat.ask("Which word?", threadId="t")

    assert (answer.status, answer.text, answer.ended) == (200, UNREADABLE, True)
    assert not proof.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "change",
    ["flipped", "shortened", "emptied", "another id", "another thread", "plain", "another format"],
)
def test_altered_conversation_is_refused(chat: Chat, model: ModelServer, change: str) -> None:
    kept = kept_conversation(chat, model)
    content = stored(kept)
    model.says(Says(text="Another."))
    chat.ask("Say another word.", threadId="other")
    other = Checkpoint.objects.exclude(pk=kept.pk).get()
    changes: dict[str, dict[str, Any]] = {
        "flipped": {"content": content[:-1] + bytes([content[-1] ^ 1])},
        "shortened": {"content": content[:20]},
        "emptied": {"content": b""},
        "another id": {"checkpoint_id": "1f1e68b4-0000-0000-8008-78aeb6a893d8"},
        "another thread": {"checkpoint_id": other.checkpoint_id, "content": stored(other)},
        "plain": {"content": b"[]"},
        "another format": {"type": "json"},
    }
    Checkpoint.objects.filter(pk=kept.pk).update(**changes[change])

    answer = chat.ask("Which word?", threadId="t")

    assert (answer.status, answer.text, answer.ended) == (200, UNREADABLE, True)
    assert "xylophone" not in str(model.shown())


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(120)
def test_stored_conversation_is_unreadable_without_the_key(chat: Chat, model: ModelServer) -> None:
    body = "The xylophone costs 41 million."
    mail = {"to": ["mira@northwind.example"], "subject": "Price", "body": body}
    model.says(Says(calls=(("create_draft", mail),)), Says(text="The word is xylophone."))
    chat.ask("Write about the xylophone.", mode="safeWrite")
    assert ToolCall.objects.get().status == "ok"
    assert Thread.objects.get().title == "Write about the xylophone."
    assert b"xylophone" not in everything()


def test_pickle_in_the_cache_is_not_loaded(
    in_the_database: None, tmp_path: Path, client: Client
) -> None:
    """Replace every row that a failed sign-in leaves; the next sign-in reads them."""
    User.objects.create_user("ada@northwind.example", password="correct horse battery staple")
    wrong = {"login": "ada@northwind.example", "password": "wrong"}
    client.post("/sign-in/", wrong)
    proof = tmp_path / "ran"
    evil = base64.b64encode(pickle.dumps(RunsWhenRead(proof))).decode()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE accounts_cache SET value = %s", [evil])
        assert cursor.rowcount > 0

    answer = client.post("/sign-in/", wrong)

    assert answer.status_code == 200
    assert not proof.exists()


def test_database_cache_keeps_its_values(in_the_database: None) -> None:
    value = {"history": [1.5, 2.5], "name": "Zoë", "none": None}
    cache.set("a", value)
    cache.set("endless", 1, None)
    assert cache.get_many(["a", "endless", "missing"]) == {"a": value, "endless": 1}
    assert not cache.add("a", "other")
    assert cache.touch("a", 1)
    assert cache.touch("missing", 1) is False
    cache.set("b", "old", -1)
    assert cache.get("b") is None
    assert cache.add("b", "new")
    assert (cache.get("b"), cache.has_key("b"), cache.incr("endless")) == ("new", True, 2)
    assert cache.delete("b")
    assert cache.get("b", "gone") == "gone"
    with pytest.raises(TypeError):
        cache.set("c", timezone.now() + timedelta(1))


def test_none_of_our_stores_reads_pickles() -> None:
    """Check sessions, cache and messages; no module of ours imports a format that can name code."""
    assert production.SESSION_SERIALIZER == "django.contrib.sessions.serializers.JSONSerializer"
    assert {each["BACKEND"] for each in production.CACHES.values()} == {
        "accounts.infra.cache.JsonDatabaseCache"
    }
    # JSON, signed.
    assert configured.MESSAGE_STORAGE == "django.contrib.messages.storage.fallback.FallbackStorage"
    formats = (
        "pickle",
        "marshal",
        "shelve",
        "dill",
        "jsonpickle",
        "ormsgpack",
        "msgpack",
        "yaml",
        "jsonplus",
    )
    imports = [
        f"{path.relative_to(ROOT)}: {line}"
        for path, text in product().items()
        for line in text.splitlines()
        if line.lstrip().startswith(("import ", "from ")) and any(name in line for name in formats)
    ]
    assert imports == []
