"""Forms of the pages about people, tokens and mailboxes."""

from typing import Any, cast

from allauth.account.forms import LoginForm
from allauth.mfa.webauthn.forms import AddWebAuthnForm
from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from accounts.infra.idn import plain_address
from accounts.models import SCOPES, STAFF_SCOPES, Mailbox, User

LIFETIMES = (
    ("30", _("30 days")),
    ("90", _("90 days")),
    ("365", _("1 year")),
    ("", _("No expiration")),
)


class SignInForm(LoginForm):
    """The sign-in with address and password; its answer does not show if the address is known."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"].label = _("E-mail address")
        self.fields["password"].help_text = ""


class PasskeyForm(AddWebAuthnForm):
    """A passkey that signs in by itself, unless the person deselects that."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].label = _("Name of this passkey")
        self.fields["name"].widget.attrs["maxlength"] = 100
        self.fields["passwordless"].label = _("Sign in with this passkey only")
        self.fields["passwordless"].initial = True
        self.fields["passwordless"].help_text = _(
            "It then asks for your fingerprint, face or PIN. If this is off, it is a second step after a password."
        )


class LanguageForm(forms.Form):
    """The language of the pages and mails for one person."""

    language = forms.ChoiceField(
        label=_("Language"), required=False, widget=forms.Select({"class": "input"})
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        cast(forms.ChoiceField, self.fields["language"]).choices = [
            ("", _("Same as the browser")),
            *settings.LANGUAGES,
        ]


class MailboxAddressField(forms.EmailField):
    """An address with its domain in ASCII; one that servers could read differently is refused."""

    def clean(self, value: Any) -> str:
        address: str = super().clean(value)
        try:
            return plain_address(address) if address else ""
        except ValueError:
            raise forms.ValidationError(
                _("Enter a plain e-mail address, such as name@company.example."), code="invalid"
            ) from None


class TokenForm(forms.Form):
    """The scopes, mailboxes and lifetime of a new token."""

    name = forms.CharField(label=_("Name"), max_length=100)
    scopes = forms.MultipleChoiceField(
        label=_("The token may"), widget=forms.CheckboxSelectMultiple
    )
    mailboxes = forms.ModelMultipleChoiceField(
        label=_("Mailboxes"), queryset=Mailbox.objects.none(), widget=forms.CheckboxSelectMultiple
    )
    days = forms.ChoiceField(label=_("Expiration"), choices=LIFETIMES, required=False, initial="90")

    def __init__(self, *args: Any, owner: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        cast(forms.MultipleChoiceField, self.fields["scopes"]).choices = [
            (scope, words)
            for scope, words in SCOPES.items()
            if owner.is_staff or scope not in STAFF_SCOPES
        ]
        cast(
            forms.ModelMultipleChoiceField, self.fields["mailboxes"]
        ).queryset = Mailbox.objects.filter(members=owner).exclude(
            status=Mailbox.Status.DISCONNECTED
        )
