"""Forms of the pages about people, tokens and mailboxes."""

from typing import Any, cast

from allauth.account.forms import (
    ChangePasswordForm,
    LoginForm,
    RequestLoginCodeForm,
    ResetPasswordForm,
    ResetPasswordKeyForm,
    SetPasswordForm,
)
from allauth.core import context
from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.forms import (
    AddWebAuthnForm,
    AuthenticateWebAuthnForm,
    EditWebAuthnForm,
    LoginWebAuthnForm,
    ReauthenticateWebAuthnForm,
)
from allauth.mfa.webauthn.internal.auth import get_state
from django import forms
from django.conf import settings
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from accounts.access.roles import connected_of
from accounts.infra.idn import plain_address
from accounts.models import CHAT_NAME, SCOPES, ApiToken, Mailbox, User, allowed_scopes
from accounts.people.guessing import may_be_mailed

_PICK = _("Choose at least one.")
NAME_LENGTH = 100  # of a passkey
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


class _WordedPasswords(forms.Form):
    """The two fields of a new password; the validators explain themselves when they refuse."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password1"].label = _("New password")
        self.fields["password1"].help_text = _(
            "At least 12 characters that are hard to guess: several words, and not your name."
        )
        self.fields["password2"].label = _("New password again")
        for field in self.fields.values():
            field.widget.attrs.pop("placeholder", None)


class NewPasswordForm(_WordedPasswords, SetPasswordForm):
    """The first password of a person."""


class OtherPasswordForm(_WordedPasswords, ChangePasswordForm):
    """Another password for a person who has one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["oldpassword"].label = _("Present password")


class ResetForm(_WordedPasswords, ResetPasswordKeyForm):
    """A new password for a person who has a link to reset it."""


class CodeRequestForm(RequestLoginCodeForm):
    """A request for a mailed code. Beyond the limit, the answer is that to an unknown address."""

    def clean_email(self) -> str:
        email: str = super().clean_email()
        if not may_be_mailed(context.request, email):
            self._user = None
        return email


class ResetRequestForm(ResetPasswordForm):
    """A request for a link to a new password, with the same limit."""

    def clean_email(self) -> str:
        email: str = super().clean_email()
        if not may_be_mailed(context.request, email):
            self.users = []
        return email


class GuardedForm(forms.Form):
    """A form with the answer of a passkey. The library fails over one of another shape."""

    def full_clean(self) -> None:
        try:
            super().full_clean()
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
            self.add_error("credential", get_adapter().validation_error("incorrect_code"))


class SecondStepForm(GuardedForm, AuthenticateWebAuthnForm):
    """A passkey after the password."""


class SignInAgainForm(GuardedForm, ReauthenticateWebAuthnForm):
    """A passkey of a person who is signed in."""


class PasskeyForm(GuardedForm, AddWebAuthnForm):
    """A passkey that signs in by itself, unless the person deselects that.

    The library stores the answer as it comes, and each sign-in with a passkey reads all of a person.
    """

    MOST = 20
    MOST_CHARACTERS = 16_384  # of an answer; ordinary ones have a thousand

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].label = _("Name of this passkey")
        self.fields["name"].widget.attrs["maxlength"] = NAME_LENGTH
        self.fields["passwordless"].label = _("Sign in with this passkey only")
        self.fields["passwordless"].initial = True
        self.fields["passwordless"].help_text = _(
            "It then asks for your fingerprint, face or PIN. If this is off, it is a second step after a password."
        )

    def clean_name(self) -> str:
        return str(super().clean_name())[:NAME_LENGTH]

    def clean_credential(self) -> Any:
        held = Authenticator.objects.filter(user=self.user, type=Authenticator.Type.WEBAUTHN)
        if held.count() >= self.MOST:
            raise forms.ValidationError(
                _("You have %(count)s passkeys. Remove one first.") % {"count": self.MOST}
            )
        if len(self.data["credential"]) > self.MOST_CHARACTERS:
            raise get_adapter().validation_error("incorrect_code")
        return self.cleaned_data["credential"]


class PasskeyNameForm(EditWebAuthnForm):
    """Another name for a passkey."""

    name = forms.CharField(max_length=NAME_LENGTH)

    def save(self) -> Authenticator:
        """Store the name. The library stores the whole row, also one that was removed meanwhile."""
        held = Authenticator.objects.filter(pk=self.instance.pk)
        held.update(data=self.instance.data | {"name": self.cleaned_data["name"]})
        return cast(Authenticator, self.instance)


class PasskeySignInForm(GuardedForm, LoginWebAuthnForm):
    """A passkey that signs in by itself: the challenge asked for a fingerprint, face or PIN.

    The library keeps one challenge for all its pages, and that of a second step does not ask.
    """

    def clean_credential(self) -> Authenticator:
        if (get_state() or {}).get("user_verification") != "required":
            raise get_adapter().validation_error("incorrect_code")
        return super().clean_credential()


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


class AccessForm(forms.Form):
    """A choice among the rights and mailboxes that are offered for a program.

    A mailbox is ticked only if there is no other.
    """

    scopes = forms.MultipleChoiceField(
        label=_("It may"), widget=forms.CheckboxSelectMultiple, error_messages={"required": _PICK}
    )
    mailboxes = forms.ModelMultipleChoiceField(
        label=_("In these mailboxes"),
        queryset=Mailbox.objects.none(),
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": _PICK},
    )

    def __init__(
        self, *args: Any, offered: list[str], mailboxes: QuerySet[Mailbox], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        cast(forms.MultipleChoiceField, self.fields["scopes"]).choices = [
            (scope, SCOPES[scope]) for scope in offered
        ]
        cast(forms.ModelMultipleChoiceField, self.fields["mailboxes"]).queryset = mailboxes
        some = list(mailboxes.values_list("pk", flat=True)[:2])
        self.fields["mailboxes"].initial = some if len(some) == 1 else []


class TokenForm(AccessForm):
    """The scopes, mailboxes and lifetime of a new token."""

    MOST = 100  # of a person, because their page lists all
    name = forms.CharField(label=_("Name"), max_length=100)
    days = forms.ChoiceField(label=_("Expiration"), choices=LIFETIMES, required=False, initial="90")
    field_order = ("name",)

    def __init__(self, *args: Any, owner: User, **kwargs: Any) -> None:
        allowed = allowed_scopes(owner, SCOPES)
        offered = [scope for scope in SCOPES if scope in allowed]
        self._owner = owner
        super().__init__(*args, offered=offered, mailboxes=connected_of(owner), **kwargs)
        self.fields["scopes"].label = _("The token may")
        self.fields["mailboxes"].label = _("Mailboxes")

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if name == CHAT_NAME:
            raise forms.ValidationError(_("This is the name of the chat. Choose another name."))
        if ApiToken.objects.filter(user=self._owner, revoked_at=None).count() >= self.MOST:
            raise forms.ValidationError(
                _("You have %(count)s tokens. Revoke one first.") % {"count": self.MOST}
            )
        return name


class ConsentForm(AccessForm):
    """The rights, mailboxes and lifetime that a person gives a program. Only reading is ticked."""

    days = forms.ChoiceField(label=_("For how long"), choices=LIFETIMES[:-1], initial="90")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["scopes"].initial = [
            scope for scope in kwargs["offered"] if scope == "mail:read"
        ]


class DeviceCodeForm(forms.Form):
    """The code that a program without a browser shows."""

    code = forms.CharField(
        label=_("Code"),
        max_length=20,
        widget=forms.TextInput(
            attrs={
                "class": "input addr",
                "autocomplete": "off",
                "autocapitalize": "characters",
                "spellcheck": "false",
                "placeholder": "BCDF-GHJK",
            }
        ),
    )
