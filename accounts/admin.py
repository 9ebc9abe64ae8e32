"""The admin shows people, how they can sign in, mailboxes and tokens.

It shows no secret. Only people can be changed in it.
"""

from functools import partial
from typing import Any, cast

from allauth.account.models import EmailAddress
from allauth.idp.oidc.models import Client, Token
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from allauth.usersessions.models import UserSession
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db import models, transaction
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest

from accounts.audit_hook import record_event
from accounts.infra.fields import Encrypted
from accounts.models import ApiToken, Mailbox, Membership, User
from accounts.oauth.grants import take_staff_scopes
from accounts.people.browsers import end_sessions
from accounts.people.recovery import hold_programs, mail_rights, revoke_all

RIGHTS = ("is_active", "is_staff", "is_superuser")


class ListedAdmin(admin.ModelAdmin):
    """An admin page whose rows can be filtered only by the fields that it names for this.

    Django filters by any column, so a superuser could read a secret letter by letter.
    """

    actions = None

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        name, _, word = lookup.partition("__")
        listed = {"pk", self.opts.pk.name, *self.list_filter, *self.search_fields}
        return name in listed and word in ("", "exact", "isnull")


class ReadOnlyAdmin(ListedAdmin):
    """An admin page that only shows rows, because other pages and commands change them.

    Fields that can hold words of a mail or a secret are left out, except the `harmless` ones.
    """

    show_full_result_count = False
    harmless: tuple[str, ...] = ()

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return [
            *(self.exclude or ()),
            *(
                field.name
                for field in self.opts.fields
                if isinstance(field, Encrypted | models.JSONField | models.BinaryField)
                and field.name not in self.harmless
            ),
        ]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(User)
class PersonAdmin(ListedAdmin):
    """A person: added without any way to sign in, and deactivated instead of deleted.

    Passwords and factors are not set here. The command `recover_person` does that, because a
    superuser who sets a password can sign in as that person. Each change is an event in the audit,
    and a change of rights is mailed to the person.
    """

    ordering = ["email"]
    list_display = ["email", "first_name", "last_name", "is_active", "is_staff", "is_superuser"]
    search_fields = ["email", "first_name", "last_name"]
    readonly_fields = ["address_proven_at", "last_login", "date_joined"]
    fieldsets = [
        (None, {"fields": ["email", "address_proven_at"]}),
        ("Person", {"fields": ["first_name", "last_name"]}),
        (
            "Access",
            {"fields": ["is_active", "is_staff", "is_superuser", "last_login", "date_joined"]},
        ),
    ]

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> list[str]:
        """Return the fixed fields; the address cannot change, because password links go there.

        Only a superuser changes rights: anybody else could give themselves all of them.
        """
        rights = [] if cast(User, request.user).is_superuser else RIGHTS
        return [*self.readonly_fields, *rights, *(["email"] if obj else [])]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        """Return a field judged by what the page showed: the account may have been closed since."""
        shows = request.method != "POST" or f"initial-{db_field.name}" in request.POST
        return super().formfield_for_dbfield(db_field, request, show_hidden_initial=shows, **kwargs)

    def save_model(self, request: HttpRequest, obj: User, form: ModelForm, change: bool) -> None:
        by = cast(User, request.user)
        if change:
            obj.save(update_fields=form.changed_data)
            obj.refresh_from_db()
            hold_programs(obj)
        else:
            obj.email = obj.email.strip().lower()
            obj.set_unusable_password()
            obj.save()
        rights = {name: getattr(obj, name) for name in RIGHTS if name in form.changed_data}
        if not change:
            record_event(
                "person_added",
                person=by,
                subject=obj,
                is_staff=obj.is_staff,
                is_superuser=obj.is_superuser,
            )
        elif form.changed_data:
            record_event(
                "person_changed", person=by, subject=obj, fields=sorted(form.changed_data), **rights
            )
        if not obj.is_active or "is_active" in rights:  # what came in the moment it was closed, too
            end_sessions(obj)
            revoke_all(obj, by=by)
        elif "is_staff" in rights:
            take_staff_scopes(obj, by=by)
        if change and rights:
            transaction.on_commit(partial(mail_rights, obj))


for model in (
    Group,
    Client,
    Token,
    EmailAddress,
    SocialAccount,
    SocialApp,
    SocialToken,
    Authenticator,
    UserSession,
):
    admin.site.unregister(model)  # the libraries register them with pages that can change them


@admin.register(EmailAddress)
class EmailAddressAdmin(ReadOnlyAdmin):
    list_display = ["email", "user", "verified"]


@admin.register(SocialAccount)
class SocialAccountAdmin(ReadOnlyAdmin):
    list_display = ["user", "provider", "uid", "last_login", "date_joined"]
    fields = ["user", "provider", "uid", "last_login", "date_joined"]


@admin.register(Authenticator)
class AuthenticatorAdmin(ReadOnlyAdmin):
    list_display = ["user", "type", "created_at", "last_used_at"]
    fields = ["user", "type", "created_at", "last_used_at"]


@admin.register(UserSession)
class UserSessionAdmin(ReadOnlyAdmin):
    list_display = ["user", "ip", "created_at", "last_seen_at"]
    fields = ["user", "ip", "user_agent", "created_at", "last_seen_at"]


@admin.register(Mailbox)
class MailboxAdmin(ReadOnlyAdmin):
    list_display = ["address", "provider", "status", "checked_at"]
    harmless = ("scopes",)


@admin.register(Membership)
class MembershipAdmin(ReadOnlyAdmin):
    list_display = ["mailbox", "user", "role", "starts_at", "ends_at"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Membership]:
        return Membership.on_any_day.all()


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    list_display = ["name", "hint", "client", "user", "expires_at", "last_used_at", "revoked_at"]
    list_select_related = ["client", "user"]
    exclude = ["digest"]
    harmless = ("scopes",)


@admin.register(Client)
class ProgramAdmin(ReadOnlyAdmin):
    """A program that asked for access by OAuth. MAILHUB_OAUTH_REGISTRATION says which may."""

    list_display = ["name", "id", "redirect_uris", "created_at"]
    fields = ["name", "id", "redirect_uris", "created_at"]
    search_fields = ["name", "id"]
