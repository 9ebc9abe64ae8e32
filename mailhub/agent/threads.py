"""Threads for the adapters: found only for their owner, claimed for one run, and stored."""

import hashlib
from datetime import timedelta
from uuid import UUID, uuid4

from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.access.caller import Caller
from accounts.access.roles import mailboxes
from mailhub.agent.models import TITLE_CHARS, Checkpoint, Message, Thread, ToolCall
from tools.catalog.servers import find_tool

RUN_SECONDS = 300
TURNS_A_MINUTE = 20
HASHED_BYTES = 4096
SHOWN = 200


def of_caller(caller: Caller) -> QuerySet[Thread]:
    return Thread.objects.filter(user=caller.user, caller_name=_owner(caller)).order_by(
        "-updated_at"
    )


def open_thread(caller: Caller, name: str | None) -> Thread:
    """Return the caller's thread of this name; other callers have their own of the same name."""
    found, _ = Thread.objects.get_or_create(
        user=caller.user, caller_name=_owner(caller), name=name or str(uuid4())
    )
    return found


def _owner(caller: Caller) -> str:
    """Return the name of the token; empty for the chat of the person."""
    return caller.token.name if caller.token else ""


def claim(thread: Thread) -> str:
    """Claim the thread for one run; return the reason if that is not possible, else nothing."""
    now = timezone.now()
    said = Message.objects.filter(
        thread=thread, author=Message.Author.PERSON, created_at__gt=now - timedelta(minutes=1)
    )
    if said.count() >= TURNS_A_MINUTE:
        return f"Too many requests: at most {TURNS_A_MINUTE} a minute in one thread. Wait a little."
    free = Thread.objects.filter(Q(busy_until=None) | Q(busy_until__lt=now), pk=thread.pk)
    if not free.update(busy_until=now + timedelta(seconds=RUN_SECONDS), updated_at=now):
        return "This thread is still answering. Wait for it, or stop it."
    return ""


def forget_lost(caller: Caller, thread: Thread) -> None:
    """Delete the model's memory of a thread if a call in it read what the caller may not read now.

    The calls outlive that conversation.
    """
    calls = ToolCall.objects.filter(thread=thread, status="ok").order_by()
    visible = {None, *mailboxes(caller).values_list("pk", flat=True)}
    for name, mailbox in calls.values_list("tool", "mailbox").distinct():
        tool = find_tool(caller, name)
        if mailbox not in visible or (tool is not None and not caller.may(tool.scope)):
            Checkpoint.objects.filter(thread=thread).delete()
            calls.update(thread=None)
            return


def release(thread: Thread) -> None:
    Thread.objects.filter(pk=thread.pk).update(busy_until=None, updated_at=timezone.now())


def store_prompt(thread: Thread, prompt: str) -> None:
    Message.objects.create(thread=thread, author=Message.Author.PERSON, text=prompt)
    if not thread.title:
        thread.title = " ".join(prompt.split())[:TITLE_CHARS]
        thread.save(update_fields=["title"])


def store_answer(thread: Thread, text: str) -> None:
    if text.strip():
        Message.objects.create(thread=thread, author=Message.Author.AGENT, text=text)


def store_call(
    thread: Thread,
    *,
    mailbox_id: UUID | None,
    tool: str,
    status: str,
    output: str,
    duration_ms: int,
    mode: str,
    action_id: UUID | None = None,
) -> None:
    """Store one row for the call, and one for the page."""
    ToolCall.objects.create(
        thread=thread,
        user_id=thread.user_id,
        caller_name=thread.caller_name,
        mailbox_id=mailbox_id,
        action_id=action_id,
        tool=tool[:64],
        status=status,
        duration_ms=duration_ms,
        mode=mode,
        sha256=hashlib.sha256(output.encode("utf-8", "replace")[:HASHED_BYTES]).hexdigest(),
    )
    Message.objects.create(
        thread=thread,
        author=Message.Author.TOOL,
        tool=tool[:64],
        action_id=action_id,
        failed=status != "ok",
        text="" if status == "ok" else status,
    )
