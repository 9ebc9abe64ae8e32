"""Read-only admin pages for actions: nothing can be decided or changed there."""

from typing import Any

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html

from accounts.admin import ReadOnlyAdmin
from approvals.models import (
    ApprovalPolicy,
    Attempt,
    AuditEvent,
    DeadLetter,
    Decision,
    PendingAction,
)


class AttemptInline(admin.TabularInline):
    model = Attempt
    extra = 0
    can_delete = False
    readonly_fields = [
        "fence",
        "phase",
        "verdict",
        "code",
        "started_at",
        "wire_started_at",
        "ended_at",
    ]
    fields = tuple(readonly_fields)

    def has_add_permission(self, *args: Any) -> bool:
        return False


@admin.register(PendingAction)
class PendingActionAdmin(ReadOnlyAdmin):
    list_display = ["id", "kind", "status", "mailbox", "created_at", "finished_at", "story"]
    list_filter = ["status", "kind"]
    inlines = [AttemptInline]
    readonly_fields = ["story"]

    @admin.display
    def story(self, action: PendingAction) -> str:
        return format_html('<a href="{}">{}</a>', reverse("story", args=[action.pk]), "explain")


@admin.register(Decision)
class DecisionAdmin(ReadOnlyAdmin):
    list_display = ["action", "verdict", "person", "revision", "created_at"]


@admin.register(ApprovalPolicy)
class ApprovalPolicyAdmin(ReadOnlyAdmin):
    list_display = ["mailbox", "approvals_needed", "self_approval"]


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    harmless = ("data",)
    list_display = ["sequence", "mailbox", "event", "action_id", "actor", "at"]


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    list_display = ["chore", "action", "error", "failures", "first_at", "last_at", "again_at"]
    list_filter = ["chore"]
