"""The words of the outbox for people: why a notification was dropped or failed."""

from django.utils.translation import gettext as _


def describe_code(code: str) -> str:
    """Return a sentence for a code of the outbox; an unknown code is returned as it is."""
    if not code:
        return ""
    if code.startswith("http_"):
        return _("The service answered %(status)s.") % {"status": code.removeprefix("http_")}
    return {
        "decided": _("It was decided before."),
        "expired": _("It had expired."),
        "seen": _("You were looking at it."),
        "no_right": _("You may no longer decide about it."),
        "not_active": _("Your account was not active."),
        "solved": _("The mailbox works again."),
        "nothing": _("There was nothing to report."),
        "channel_paused": _("The channel was paused."),
        "worker_lost": _("The worker ended while it sent. It is not sent again."),
        "channel_error": _("The channel failed in an unexpected way."),
        "no_mail_server": _("This server sends no mail. Ask your administrator."),
        "address_not_proven": _("Your address is not proven."),
        "smtp_refused": _("The mail server refused it."),
        "smtp_not_sent": _("The mail server did not take it."),
        "smtp_unknown": _("The mail server gave no answer."),
        "address_unusable": _("The address cannot be used any more. Add the channel again."),
        "host_refused": _("This host cannot be used."),
        "unreachable": _("The service could not be reached."),
        "no_answer": _("The service gave no answer."),
        "subscribe_again": _("The browser must turn notifications on again."),
    }.get(code, code)
