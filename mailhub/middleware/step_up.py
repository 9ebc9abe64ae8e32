"""The pages that need a fresh sign-in.

Every URL name that accepts a form is in one of the two tables of this file.

`STEP_UP` holds everything that changes a credential, a factor, a mailbox connection, a member, a
rule, a token, a webhook, an identity-provider link or a session. `HARMLESS` holds the rest, each
with the reason. A form of a URL name in neither table is treated as if it were in `STEP_UP`, and a
test fails until it is classified.
"""

from dataclasses import dataclass

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.urls import ResolverMatch, reverse

from accounts.people.step_up import ask_again, is_fresh

SAFE_METHODS = ("GET", "HEAD", "OPTIONS", "TRACE")


@dataclass(frozen=True, kw_only=True)
class Ask:
    """The moment to ask for a fresh sign-in, and the page where the person continues.

    `looking` asks before the page is shown, so that nobody fills in a form in vain. `back` is the
    URL name of the page that holds the button; without it the person returns to the same address.
    """

    looking: bool = False
    back: str = ""
    takes: str = ""  # the URL argument that `back` needs too


PAGE = Ask(looking=True)
FORM = Ask()
OF_MAILBOX = Ask(back="mailbox", takes="mailbox_id")

STEP_UP: dict[str, Ask] = {
    # Credentials and factors of a person
    "account_change_password": PAGE,
    "account_set_password": PAGE,
    "mfa_activate_totp": PAGE,
    "mfa_deactivate_totp": PAGE,
    "mfa_view_recovery_codes": PAGE,
    "mfa_generate_recovery_codes": PAGE,
    "mfa_download_recovery_codes": PAGE,
    "mfa_list_webauthn": PAGE,
    "mfa_add_webauthn": PAGE,
    "mfa_remove_webauthn": PAGE,
    "mfa_edit_webauthn": PAGE,
    "socialaccount_connections": PAGE,
    "openid_connect_login": Ask(back="security"),
    "end_session": Ask(back="security"),
    "end_other_sessions": Ask(back="security"),
    # Mailboxes: access, members, rules
    "connect": PAGE,
    "prove_address": PAGE,
    "connect_imap": PAGE,
    "connect_oauth": PAGE,
    "oauth_answer": PAGE,
    "rules": PAGE,
    "folders": PAGE,
    "disconnect": FORM,
    "invite": OF_MAILBOX,
    "withdraw": OF_MAILBOX,
    "change_role": OF_MAILBOX,
    "remove_member": OF_MAILBOX,
    "invitation": FORM,
    # Programs
    "new_token": PAGE,
    "rotate_token": Ask(back="tokens"),
    "oauth_authorize": PAGE,
    "oauth_device": PAGE,
    "new_webhook": PAGE,
    "remove_webhook": Ask(back="webhook", takes="webhook_id"),
    # Where notifications go
    "add_push_channel": Ask(back="notifications"),
    "add_chat_channel": PAGE,
    # A person's decision about an action with an unknown outcome
    "resolve": Ask(back="review", takes="action_id"),
}
# All pages of the admin: its forms, and the pages that lead to one.
STEP_UP_NAMESPACES: dict[str, Ask] = {"admin": FORM}
STEP_UP |= {"admin:accounts_user_add": PAGE, "admin:accounts_user_change": PAGE}

# A recovery removes what these make, so it must not come between.
MADE_WHILE_HELD = frozenset(
    {
        *("mfa_activate_totp", "mfa_generate_recovery_codes", "mfa_add_webauthn"),
        *("new_token", "add_push_channel", "add_chat_channel"),
    }
)

SIGNS_IN = "It is a way to sign in; it asks for the secret itself."
PROPOSES = "It proposes at most: nothing leaves before a person approves."
DECIDES = "A risky approval asks in the view, because only the mail itself tells whether it is one."
ONLY_SAFER = "It only takes access or speed away; somebody in a hurry must not wait for a sign-in."
OF_PROGRAM = "A program calls it, without a session; only a person's consent gives it anything."
DISCUSSES = "It is read by members only: it decides nothing and changes no right."
ONLY_LOOKS = "It changes what this person sees, and nothing else."

HARMLESS: dict[str, str] = {
    "sign_in": SIGNS_IN,
    "account_login": SIGNS_IN,
    "sign_in_by_link": SIGNS_IN,
    "account_request_login_code": SIGNS_IN,
    "account_confirm_login_code": SIGNS_IN,
    "mfa_authenticate": SIGNS_IN,
    "mfa_login_webauthn": SIGNS_IN,
    "openid_connect_callback": "Its answer belongs to a sign-in begun here; linking an account asks again.",
    "account_reauthenticate": SIGNS_IN,
    "mfa_reauthenticate": SIGNS_IN,
    "mfa_reauthenticate_webauthn": SIGNS_IN,
    "account_reset_password": "It mails a link to the address of the account and changes nothing.",
    "account_reset_password_from_key": "It needs the secret that was mailed to the address of the account.",
    "socialaccount_signup": "Nobody signs up: the page says so.",
    "sign_out": ONLY_SAFER,
    "account_logout": ONLY_SAFER,
    "admin:logout": ONLY_SAFER,
    "admin:login": "It leads to the one page that signs in.",
    "choose_language": "It changes only the language of the pages.",
    "revoke_token": ONLY_SAFER,
    "narrow_token": ONLY_SAFER,
    "oauth_register": OF_PROGRAM,
    "oauth_token": OF_PROGRAM,
    "oauth_revoke": OF_PROGRAM,
    "oauth_device_code": OF_PROGRAM,
    "pause_mailbox": "Pausing only makes safer; resuming asks in the view.",
    "approve": DECIDES,
    "bulk": "It shows what was chosen and decides nothing.",
    "bulk_approve": "It refuses every mail with a serious warning.",
    "reject": ONLY_SAFER,
    "cancel": ONLY_SAFER,
    "undo": ONLY_SAFER,
    "edit": PROPOSES,
    "ask_back": PROPOSES,
    "comment": DISCUSSES,
    "assign": DISCUSSES,
    "texts": DISCUSSES,
    "text": DISCUSSES,
    "remove_text": DISCUSSES,
    "presence": ONLY_LOOKS,
    "save_view": ONLY_LOOKS,
    "remove_view": ONLY_LOOKS,
    "choose_order": ONLY_LOOKS,
    "keyboard": ONLY_LOOKS,
    "audit_verify": ONLY_LOOKS,
    "notifications": "It changes when this person is notified, and decides nothing.",
    "add_email_channel": "It sends links to the proven address of this account.",
    "change_channel": "It changes how much a channel shows that this person has set up already.",
    "test_channel": "It sends a message without content to a channel that is set up already.",
    "resume_channel": "It turns a channel on again that is set up already.",
    "remove_channel": "It ends notifications; the queue shows the same.",
    "deliver_again": "It repeats a notification to an address that is set up already.",
    "compose": PROPOSES,
    "delete_draft": "It removes a draft in a mailbox of this person.",
    "send_draft": PROPOSES,
    "agent_stream": PROPOSES,
    "plain_stream": PROPOSES,
    "agent_forget": "It forgets a conversation of this person.",
}
HARMLESS_NAMESPACES = {"api": "It takes bearer tokens only, never a session; no token can approve."}


def find_ask(match: ResolverMatch, method: str) -> Ask | None:
    """Return how to ask before this request, or None if it needs no fresh sign-in."""
    name, form = match.view_name, method not in SAFE_METHODS
    ask = STEP_UP.get(name)
    if (
        ask is None
        and name not in HARMLESS
        and not HARMLESS_NAMESPACES.keys() & set(match.namespaces)
    ):
        ask = next(
            (STEP_UP_NAMESPACES[each] for each in match.namespaces if each in STEP_UP_NAMESPACES),
            FORM,
        )
    return ask if ask and (form or ask.looking) else None


def judge(request: HttpRequest, ask: Ask) -> HttpResponseBase | None:
    """Return the redirect to the sign-in, or None to continue.

    The views themselves refuse a person who is not signed in. Those of the library's factors would
    first keep the whole form of a stranger in a new session.
    """
    match = request.resolver_match
    assert match is not None
    if not request.user.is_authenticated and match.view_name.startswith("mfa_"):
        return redirect_to_login(request.get_full_path())
    if not request.user.is_authenticated or is_fresh(request):
        return None
    if not ask.back:
        return ask_again(request, back=request.get_full_path())
    kept = {ask.takes: match.kwargs[ask.takes]} if ask.takes else {}
    return ask_again(request, back=reverse(ask.back, kwargs=kept))
