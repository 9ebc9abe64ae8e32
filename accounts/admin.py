"""The admin shows people, mailboxes and tokens; secrets are never shown, tokens and memberships not changed here."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.http import HttpRequest

from accounts.models import ApiToken, Mailbox, Membership, User


class ReadOnlyAdmin(admin.ModelAdmin):
    """For what is changed by its own road alone."""

    actions = None
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(User)
class PersonAdmin(UserAdmin):
    ordering = ["email"]
    list_display = ["email", "first_name", "last_name", "is_active", "is_staff"]
    search_fields = ["email", "first_name", "last_name"]
    fieldsets = [
        (None, {"fields": ["email", "password"]}),
        ("Person", {"fields": ["first_name", "last_name"]}),
        ("Access", {"fields": ["is_active", "is_staff", "is_superuser", "last_login", "date_joined"]}),
    ]
    add_fieldsets = [(None, {"classes": ["wide"], "fields": ["email", "usable_password", "password1", "password2"]})]


@admin.register(Mailbox)
class MailboxAdmin(ReadOnlyAdmin):
    list_display = ["address", "provider", "status", "checked_at"]
    exclude = ["credentials"]


@admin.register(Membership)
class MembershipAdmin(ReadOnlyAdmin):
    list_display = ["mailbox", "user", "role"]


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    list_display = ["name", "hint", "user", "expires_at", "last_used_at", "revoked_at"]
    exclude = ["digest"]
