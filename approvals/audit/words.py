"""The words of the audit: every recorded event has its only entry here."""

from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

Words = dict[str, Promise]
Groups = tuple[tuple[Promise, Words], ...]
ACTION_WORDS: Words = {
    "created": _("Proposed"),
    "superseded": _("Replaced by another proposal"),
    "edited": _("Edited"),
    "edit_refused": _("An edit was refused"),
    "changes_requested": _("Changes requested"),
    "ask_back_refused": _("A request for changes was refused"),
    "noticed": _("A new warning came up while it waited"),
    "approved": _("Approved"),
    "file_opened": _("File opened"),
    "approval_refused": _("An approval was refused"),
    "approval_lost": _("An approval no longer counts: its approver may no longer approve"),
    "approvals_void": _("The approvals given so far no longer count"),
    "escalated": _("No decision had come, so more people were notified"),
    "rejected": _("Rejected"),
    "rejection_refused": _("A rejection was refused"),
    "undone": _("Undone"),
    "cancelled": _("Withdrawn"),
    "returned": _("A new decision is needed"),
    "expired": _("Expired"),
    "claimed": _("Claimed by a worker"),
    "outcome_accepted": _("Accepted by the server"),
    "outcome_refused": _("Refused by the server"),
    "outcome_not_sent": _("Not carried out"),
    "outcome_unknown": _("Outcome unknown"),
    "late_outcome": _("A late answer arrived"),
    "proven_unsent": _("Proven: an earlier attempt sent nothing"),
    "sent_differs": _("The copy in Sent differs from what was approved"),
    "settling_given_up": _("Sent, but the copy or the mark could not be made"),
    "bounced": _("Returned: it did not reach a recipient"),
    "unanswered": _("Nobody has answered until the time of the follow-up"),
    "ruling_refused": _("A decision about the outcome was refused"),
    "commented": _("Commented"),
    "assigned": _("Assigned to a person"),
    "unassigned": _("No longer assigned"),
    "draft_changed": _("Draft changed"),
    "draft_deleted": _("Draft deleted"),
    "content_erased": _("Content erased at the request of a person"),
}
MAILBOX_WORDS: Words = {
    "mailbox_connected": _("Mailbox connected"),
    "mailbox_reconnected": _("Mailbox reconnected"),
    "mailbox_disconnected": _("Mailbox disconnected"),
    "folders_chosen": _("Folders and copies changed"),
    "mailbox_refused": _("The server refused the sign-in: it must be reconnected"),
    "paused": _("Paused"),
    "resumed": _("Resumed"),
    "restored": _("Came back with an older copy of the database"),
    "restore_began": _("After a restore, an operator began to look up what may have been sent"),
    "restore_reconciled": _("After a restore, an operator checked earlier approvals"),
    "policy_changed": _("Rules changed"),
    "text_saved": _("Text for reviewers saved"),
    "text_removed": _("Text for reviewers removed"),
}
MEMBER_WORDS: Words = {
    "invited": _("Invited"),
    "invitation_limited": _("Too many invitations"),
    "invitation_link_made": _("Invitation link created by a command"),
    "invitation_refused": _("Invitation refused: not the invited person"),
    "invitation_withdrawn": _("Invitation withdrawn"),
    "joined": _("Joined"),
    "role_changed": _("Role changed"),
    "member_removed": _("Member removed"),
    "left": _("Left the mailbox"),
    # Of an earlier version
    "deputy_named": _("Deputy named"),
    "deputy_ended": _("Deputyship ended early"),
}
PERSON_WORDS: Words = {
    "address_code_mailed": _("Code sent to an address"),
    "address_code_limited": _("Too many codes for addresses"),
    "address_proven": _("Address confirmed"),
    "person_added": _("Person added"),
    "person_changed": _("Person changed"),
    "person_erased": _("Data of a person erased"),
    "person_recovered": _("Access of a person recovered"),
    "sign_on_refused": _("Single sign-on refused"),
    "signed_in": _("Signed in"),
    "signed_in_again": _("Identity confirmed"),
    "signed_out": _("Signed out"),
    "sign_in_failed": _("Sign-in failed"),
    "sign_in_link_made": _("Sign-in link created"),
    "session_ended": _("Session ended"),
    "factor_added": _("Second factor added"),
    "factor_removed": _("Second factor removed"),
    "factor_reset": _("Recovery codes renewed"),
    "password_set": _("Password set"),
    "password_changed": _("Password changed"),
    "password_reset": _("Password reset by mail"),
    "sign_on_connected": _("Single sign-on connected"),
    "sign_on_removed": _("Single sign-on removed"),
}
TOKEN_WORDS: Words = {
    "token_created": _("Token created"),
    "program_added": _("Program added"),
    "token_rotated": _("Token rotated"),
    "token_narrowed": _("Token limited"),
    "token_revoked": _("Token revoked"),
    "program_connected": _("Program connected"),
    "webhook_added": _("Webhook added"),
    "webhook_removed": _("Webhook removed"),
}
# The page of security events can filter by these.
PEOPLE_GROUPS: Groups = (
    (_("Members"), MEMBER_WORDS),
    (_("People"), PERSON_WORDS),
    (_("Tokens and programs"), TOKEN_WORDS),
)
GROUPS: Groups = (
    (_("Mail"), ACTION_WORDS),
    (_("Mailboxes and rules"), MAILBOX_WORDS),
    *PEOPLE_GROUPS,
)
WORDS: Words = {event: words for _group, group in GROUPS for event, words in group.items()}


def grouped_choices(groups: Groups) -> list[Any]:
    """Return the events as choices of a form, under the name of their group."""
    return [("", _("all events")), *((name, list(words.items())) for name, words in groups)]


def words_of(event: str) -> str:
    """Return an event in words; an unknown name is returned as it is.

    Somebody with access to the database can have written any name.
    """
    return str(WORDS.get(event, event))
