"""Drafts that a program did not write: it may propose a change or deletion, and a person
decides.
"""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from uuid import uuid4

from django.db import Error
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounts.access import rate_limits
from accounts.access.caller import Caller
from accounts.connect import mailbox_status
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox
from approvals.core.signatures import digest_of
from approvals.core.states import Status
from approvals.core.types import (
    BEFORE_WIRE,
    ActionKind,
    ApprovedAction,
    Outcome,
    Preview,
    Proposal,
    Remarks,
    Rendered,
)
from approvals.gate import propose as proposals
from approvals.gate.revisions import find_authors
from tools.answers import Deleted, DraftRow
from tools.mail.message import lenient
from tools.mail.message.compose import OutgoingMessage, add_date
from tools.mail.message.hidden import as_parts
from tools.mail.message.markup import find_hidden
from tools.mail.message.page_text import make_readable
from tools.models import Draft
from tools.providers import provider_for
from tools.providers.base import MailProvider, StoredDraft
from tools.providers.errors import NotAuthorized, NotSent, ProviderError, Refused, Unavailable
from tools.providers.failures import map_errors
from tools.reading.own_mail import provider_of
from tools.schemas import DeleteDraft, UpdateDraft
from tools.sending import drafts
from tools.sending.answers import Proposed, build_proposed
from tools.sending.kinds import accepted_outcome
from tools.sending.prepared import refuse_prepared
from tools.sending.preview import EXCERPT, render, targets_of
from tools.sending.purpose import fill, name_targets
from tools.sending.requests import check_callback, encode, read_remarks
from tools.warnings.course import build_draft_sender

KIND = "draft.change"
PAYLOAD_VERSION = 1
CHANGED = translatable(
    "The draft was changed or removed after the proposal. Propose the change again."
)


def update_draft(caller: Caller, mailbox: Mailbox, parameters: UpdateDraft) -> DraftRow | Proposed:
    """Replace the caller's own unchanged draft now; propose the change of any other."""
    check_callback(caller, parameters)
    with map_errors(mailbox):
        provider = provider_of(mailbox)
        stored = drafts.get_draft(mailbox, provider, parameters)
        request, people = drafts.replacement(caller, mailbox, provider, parameters, stored)
        if drafts.may_change(caller, mailbox, stored):
            return drafts.replace_draft(caller, mailbox, provider, request, stored, people)
        before = _describe(provider, stored)
    remarks = read_remarks(parameters)
    return _propose(caller, mailbox, stored, before, encode(request), remarks, people.notes)


def delete_draft(caller: Caller, mailbox: Mailbox, parameters: DeleteDraft) -> Deleted | Proposed:
    """Delete the caller's own unchanged draft now; propose the deletion of any other."""
    check_callback(caller, parameters)
    with map_errors(mailbox):
        provider = provider_of(mailbox)
        stored = drafts.get_draft(mailbox, provider, parameters)
        if drafts.may_change(caller, mailbox, stored):
            return drafts.remove_draft(caller, mailbox, provider, stored)
        before = _describe(provider, stored)
    return _propose(caller, mailbox, stored, before, None, read_remarks(parameters))


def _propose(
    caller: Caller,
    mailbox: Mailbox,
    stored: StoredDraft,
    before: dict[str, Any],
    after: OutgoingMessage | None,
    remarks: Remarks,
    notes: tuple[str, ...] = (),
) -> Proposed:
    """Store the change for a person to decide.

    The same change of the same draft leads to the same action, until that was withdrawn or has expired.
    """
    tool = "delete_draft" if after is None else "update_draft"
    wanted = None if after is None else _content_of(after)
    asked = digest_of({"tool": tool, "draft": stored.id, "version": stored.etag, "wanted": wanted})
    key = asked
    while earlier := proposals.replay(
        caller=caller, mailbox=mailbox, tool=tool, key=key, request_digest=asked
    ):
        if earlier.status not in (Status.CANCELLED, Status.EXPIRED):
            return build_proposed(earlier, caller, replayed=True)
        key = digest_of({"after": str(earlier.pk)})
    rate_limits.count_proposal(caller)
    rate_limits.count_stored(caller, 0 if after is None else len(after.source))
    payload = {
        "version": PAYLOAD_VERSION,
        "kind": KIND,
        "change": "delete" if after is None else "update",
        "mailbox": str(mailbox.id),
        "draft": {"id": stored.id, "sha256": stored.etag},
        "before": before,
        "after": wanted,
        "source_sha256": None if after is None else after.sha256,
    }
    action, replayed = proposals.propose(
        caller=caller,
        mailbox=mailbox,
        tool=tool,
        key=key,
        request_digest=asked,
        proposal=Proposal(
            kind=KIND,
            payload=payload,
            preview=_preview(mailbox, stored, before, after, wanted, asked),
            message_id=f"draft-{uuid4()}",
            blobs=() if after is None else (after.source,),
        ),
        remarks=remarks,
    )
    return build_proposed(action, caller, replayed=replayed, notes=notes)


def _describe(provider: MailProvider, stored: StoredDraft) -> dict[str, Any]:
    """Return the present draft for the page: the content that would be lost."""
    message = provider.read_message(stored.id, body=True)
    hidden_copies = lenient.addresses(lenient.headers(stored.source), "Bcc")
    return {
        "to": list(message.to),
        "cc": list(message.cc),
        "bcc": [address for _name, address in hidden_copies],
        "subject": message.subject,
        "text": make_readable(message).text,
        "attachments": [
            {"name": a.name, "size": a.size, "type": a.type} for a in message.attachments
        ],
    }


def _content_of(message: OutgoingMessage) -> dict[str, Any]:
    request = message.request
    return {
        "to": list(request.to),
        "cc": list(request.cc),
        "bcc": list(request.bcc),
        "subject": request.subject,
        "text": request.content.text,
        "html": request.content.html,
        "attachments": [attachment.as_json() for attachment in request.attachments],
    } | ({"names": dict(request.names)} if request.names else {})


def _preview(
    mailbox: Mailbox,
    stored: StoredDraft,
    before: dict[str, Any],
    message: OutgoingMessage | None,
    after: dict[str, Any] | None,
    asked: str,
) -> Preview:
    """Return the preview of the change. Raises Unparsable."""
    shown = after or before
    hidden = find_hidden(message.request.content, message.request.subject) if message else ()
    parts: dict[str, Any] = {"change": "delete" if after is None else "update"}
    others = drafts.find_other_senders(stored.source, mailbox) if message else ""
    return Preview(
        title=shown["subject"],
        targets=targets_of(message.request, {mailbox.domain}) if message else (),
        excerpt=shown["text"][:EXCERPT],
        fingerprint=hashlib.sha256(asked.encode()).hexdigest(),
        warnings=(build_draft_sender(others, message),) if message and others else (),
        parts=parts | ({"hidden": as_parts(hidden)} if hidden else {}),
    )


class ChangeDraft(ActionKind):
    """The kind draft.change: replaces or deletes one draft, if it is still the one that the
    approver saw.
    """

    template = "approvals/previews/draft.change.html"
    words: Mapping[str, Any] = {
        "sort": _("draft"),
        "question": _("Change this draft?"),
        "approve": _("Approve the change"),
        "approve_anyway": _("Approve the change anyway"),
        "sealed": _(
            "This digest covers the draft as it is now and as it will be. mailhub checks both "
            "again before the change."
        ),
        "returned": _("The draft was not changed. A new decision is needed."),
        # States
        "approved": _("approved, will be changed"),
        "executing": _("changing now"),
        "succeeded": _("draft change completed"),
        "failed": _("draft change failed"),
        "unknown": _("not known whether the draft was changed"),
        # Attempts
        "accepted": _("changed"),
        "refused": _("refused, not changed"),
        "not_sent": _("not changed, will be retried"),
        # The page of a decided action
        "about_to": _("Approved, about to be changed"),
        "not_yet": _("Approved, not changed yet"),
        "attempt_did_nothing": _("The last attempt changed nothing, that is certain."),
        "done": _("The mail server accepted the change."),
        "refused_by": _("The mail server refused the change."),
        "refused_for_good": _(
            "The draft was not changed, and mailhub will not retry. Fix the problem above, then "
            "ask for a new proposal."
        ),
        "nothing": _("The draft was not changed."),
        "look": _("Check the drafts folder. mailhub never repeats the change by itself."),
        "it_happened": _("It was changed"),
        "it_happened_means": _(
            "The drafts folder shows the change. mailhub closes it as changed, in your name."
        ),
        "not_again": _("You cannot repeat the change."),
        "again": _("It was not changed: change it again"),
        "again_means": _("mailhub compares the draft once more before it changes it."),
        # Attempts whose answer was lost
        "may_have_happened": _("May have been changed"),
        "did_happen": _("The draft was changed all the same."),
        "did_happen_twice": _("The draft was changed twice."),
        "twice": translatable(
            "The answer to an earlier attempt was lost. That attempt may have changed the draft "
            "already."
        ),
        "look_first": translatable("Check the drafts folder before you approve it."),
    }

    def explain(self, tool: str, preview: Mapping[str, Any], proposer: str) -> str:
        if tool == "delete_draft":
            return fill(gettext("%(proposer)s deletes a draft."), proposer=proposer)
        said = gettext("%(proposer)s changes a draft to %(people)s.")
        return fill(said, proposer=proposer, people=name_targets(preview))

    def render(self, payload: Mapping[str, Any], blob: Callable[[str], bytes]) -> Rendered:
        shown = payload["after"] or payload["before"]
        source = blob(payload["source_sha256"]) if payload["source_sha256"] else b""
        return render(shown["text"], shown.get("html"), source)

    def execute(self, approved: ApprovedAction) -> Outcome:
        mailbox = approved.mailbox
        provider = provider_for(mailbox)
        draft = approved.payload["draft"]
        try:
            stored = provider.read_draft(draft["id"])
            if stored.etag != draft["sha256"]:
                return _refused_outcome()
            refuse_prepared(mailbox, provider, stored)
        except Problem as problem:
            return _refused_outcome(problem.code, problem.detail)
        except Refused:
            return _refused_outcome()
        except NotAuthorized as error:
            mailbox_status.mark_login_refused(mailbox)
            return Outcome.broken_off(on_wire=False, code="auth_error", detail=error.detail)
        except NotSent as error:
            wait = error.retry_after if isinstance(error, Unavailable) else None
            return Outcome(
                verdict="not_sent",
                proof=BEFORE_WIRE,
                code=error.code,
                detail=error.detail,
                retry_after=wait,
            )
        if approved.payload["change"] == "update":
            source = approved.blob(approved.payload["source_sha256"])
            people = drafts.find_authors(mailbox, stored) | find_authors(approved.id)
            drafts.keep_authors(mailbox, drafts.message_id_in(source), people)
        approved.wire_started()
        try:
            self._change(provider, approved)
        except (
            ProviderError
        ) as error:  # a replacement has several steps, and it is unknown which of them happened
            return Outcome(verdict="unknown", code=error.code, detail=error.detail)
        with suppress(Error):  # the draft stays changed even if this fails
            Draft.objects.filter(mailbox=mailbox, provider_id=draft["id"]).delete()
        return accepted_outcome(provider.name, 0, datetime.now(UTC))

    def _change(self, provider: MailProvider, approved: ApprovedAction) -> None:
        draft_id = approved.payload["draft"]["id"]
        if approved.payload["change"] == "delete":
            provider.delete_draft(draft_id)
            return
        now = format_datetime(datetime.now(UTC).replace(microsecond=0))
        source = approved.blob(approved.payload["source_sha256"])
        stamped_source = add_date(source, date=now, bcc=tuple(approved.payload["after"]["bcc"]))
        provider.save_draft(stamped_source, replaces=draft_id)

    def reconcile(self, approved: ApprovedAction) -> Outcome | None:
        """Return None: a missing draft proves no step, and neither does an existing one."""
        return None

    def can_look(self, approved: ApprovedAction) -> bool:
        return False

    def settle(self, approved: ApprovedAction) -> None:
        """Do nothing."""


def _refused_outcome(code: str = "draft_changed", detail: str = CHANGED) -> Outcome:
    return Outcome(verdict="refused", proof=BEFORE_WIRE, code=code, detail=detail)
