"""The values of the compose form, turned into the arguments of a tool.

The tool decides which values a mail may have.
"""

import re
from datetime import datetime
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from accounts.infra.foreign_text import parse_number
from accounts.infra.time_zones import get_zone
from accounts.models import Mailbox

APART = re.compile(r"[\s,;]+")


class ComposeForm(forms.Form):
    mailbox = forms.ChoiceField(label=_("From"))
    to = forms.CharField(label=_("To"), max_length=150_000)
    cc = forms.CharField(label=_("Cc"), required=False, max_length=150_000)
    bcc = forms.CharField(label=_("Bcc"), required=False, max_length=150_000)
    subject = forms.CharField(label=_("Subject"), max_length=255)
    body = forms.CharField(label=_("Text"), max_length=100_000, strip=False)
    # The local time in `zone`, the time zone in which the page was made.
    send_at = forms.DateTimeField(
        label=_("Send later"),
        required=False,
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"],
    )
    zone = forms.CharField(required=False, max_length=64)
    key = forms.RegexField(r"^[0-9a-f]{32}$", required=False)

    def __init__(self, *args: Any, senders: list[Mailbox], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [(str(mailbox.pk), mailbox.address) for mailbox in senders]
        self.fields["mailbox"].choices = choices  # type: ignore[attr-defined]

    def full_clean(self) -> None:
        with timezone.override(get_zone(str(self.data.get("zone", "")))):
            super().full_clean()

    def clean_send_at(self) -> datetime | None:
        at: datetime | None = self.cleaned_data["send_at"]
        if at is not None and self.data.get("as") == "draft":
            raise forms.ValidationError(
                _("A draft has no send time. Clear this field, or continue to approval.")
            )
        if at is not None and at <= timezone.now():
            raise forms.ValidationError(_("This time is in the past. Choose a later one."))
        return at

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that creating a draft and proposing a mail share."""
        given = self.cleaned_data
        lists = {
            name: [part for part in APART.split(given[name]) if part]
            for name in ("to", "cc", "bcc")
        }
        return {
            "mailbox": given["mailbox"],
            **lists,
            "subject": given["subject"],
            "body": given["body"].replace("\r\n", "\n"),
        }

    def blame(self, field: str, message: str) -> None:
        """Show a tool's message about a parameter beside its field; the third address of `to`
        beside `to`.
        """
        name = field.partition(".")[0]
        position = parse_number(field.partition(".")[2])
        values = self.arguments().get(name)
        if isinstance(values, list) and position is not None and position < len(values):
            message = f"{values[position]}: {message}"
        self.add_error(name if name in self.fields else None, message)
