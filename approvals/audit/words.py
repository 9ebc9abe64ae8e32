"""The words of the audit: every recorded event has its only entry here."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

WORDS: dict[str, Promise] = {
    # An action
    "created": _("Proposed"),
    "superseded": _("Replaced by another proposal"),
    "edited": _("Edited"),
    "edit_refused": _("An edit was refused"),
    "changes_requested": _("Asked back"),
    "ask_back_refused": _("Asking back was refused"),
    "noticed": _("A warning came up while it waited"),
    "approved": _("Approved"),
    "approval_refused": _("An approval was refused"),
    "approval_lost": _("An approval was lost: who gave it may no longer"),
    "approvals_void": _(
        "Earlier approvals no longer count: the approver had lost theirs and approved again"
    ),
    "rejected": _("Rejected"),
    "rejection_refused": _("A rejection was refused"),
    "undone": _("Taken back"),
    "cancelled": _("Withdrawn"),
    "returned": _("Came back to be decided again"),
    "expired": _("Expired"),
    "claimed": _("A worker took it up"),
    "outcome_accepted": _("Carried out"),
    "outcome_refused": _("Refused by the server"),
    "outcome_not_sent": _("Did not leave"),
    "outcome_unknown": _("Whether it left is unknown"),
    "late_outcome": _("A late answer came"),
    "proven_unsent": _("Proven: an earlier attempt sent nothing"),
    "settling_given_up": _("Sent, but the copy or the mark could not be made"),
    "ruling_refused": _("A ruling was refused"),
    "draft_changed": _("Draft changed"),
    "draft_deleted": _("Draft deleted"),
    # A mailbox, its members, and its rules
    "mailbox_connected": _("Mailbox connected"),
    "mailbox_reconnected": _("Mailbox reconnected"),
    "mailbox_disconnected": _("Mailbox disconnected"),
    "paused": _("Paused"),
    "resumed": _("Resumed"),
    "restore_reconciled": _("An operator went through what was approved before a restore"),
    "policy_changed": _("Rules changed"),
}
# The page of security events can filter by these.
PEOPLE_WORDS: dict[str, Promise] = {
    # Members
    "invited": _("Invited"),
    "invitation_limited": _("Too many invitations"),
    "invitation_link_made": _("Invitation link made by a command"),
    "invitation_refused": _("Invitation refused to another person"),
    "invitation_withdrawn": _("Invitation withdrawn"),
    "joined": _("Joined"),
    "role_changed": _("Role changed"),
    "member_removed": _("Member removed"),
    "left": _("Left the mailbox"),
    # A person
    "address_code_mailed": _("Address code mailed"),
    "address_code_limited": _("Too many address codes"),
    "address_proven": _("Address proven"),
    "person_added": _("Person added"),
    "person_changed": _("Person changed"),
    "person_recovered": _("Access of a person recovered"),
    "sign_on_refused": _("Single sign-on refused"),
    "signed_in": _("Signed in"),
    "signed_in_again": _("Confirmed who they are"),
    "signed_out": _("Signed out"),
    "sign_in_failed": _("Sign-in failed"),
    "sign_in_link_made": _("Sign-in link made"),
    "session_ended": _("Session ended"),
    "factor_added": _("Second factor added"),
    "factor_removed": _("Second factor removed"),
    "factor_reset": _("Recovery codes made again"),
    "password_set": _("Password set"),
    "password_changed": _("Password changed"),
    "password_reset": _("Password reset by mail"),
    "sign_on_connected": _("Single sign-on connected"),
    "sign_on_removed": _("Single sign-on removed"),
    # A token
    "token_created": _("Token made"),
    "token_rotated": _("Token rotated"),
    "token_revoked": _("Token revoked"),
    "webhook_added": _("Webhook added"),
    "webhook_removed": _("Webhook removed"),
}
WORDS |= PEOPLE_WORDS


def words_of(event: str) -> str:
    """Return an event in words; an unknown name is returned as it is.

    Somebody with access to the database can have written any name.
    """
    return str(WORDS.get(event, event))
