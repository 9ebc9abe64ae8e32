from django.urls import path

from approvals.audit import audit_views, security_views
from approvals.mailboxes import deputy_views, mailbox_views, member_views
from approvals.notifications import views as notification_views
from approvals.numbers import views as numbers
from approvals.pages import bulk, content, decide, live_views, preferences, queue, review, revise
from approvals.webhooks import webhook_views

urlpatterns = [
    path("", queue.index, name="queue"),
    path("actions/", queue.index, name="actions"),
    path("actions/<uuid:action_id>/", review.page, name="review"),
    path("actions/<uuid:action_id>/peek/", review.peek, name="peek"),
    path("actions/<uuid:action_id>/body/", content.body, name="review_body"),
    path(
        "actions/<uuid:action_id>/text/",
        content.download_whole,
        {"part": "text"},
        name="whole_text",
    ),
    path(
        "actions/<uuid:action_id>/source/",
        content.download_whole,
        {"part": "source"},
        name="whole_source",
    ),
    path("actions/<uuid:action_id>/presence/", live_views.presence, name="presence"),
    path("actions/<uuid:action_id>/approve/", decide.approve, name="approve"),
    path("actions/<uuid:action_id>/reject/", decide.reject, name="reject"),
    path("actions/<uuid:action_id>/edit/", revise.edit, name="edit"),
    path("actions/<uuid:action_id>/ask_back/", revise.ask_back, name="ask_back"),
    path("actions/<uuid:action_id>/cancel/", decide.cancel, name="cancel"),
    path("actions/<uuid:action_id>/undo/", decide.undo, name="undo"),
    path("actions/<uuid:action_id>/resolve/", decide.resolve, name="resolve"),
    path("bulk/", bulk.confirm, name="bulk"),
    path("bulk/approve/", bulk.approve, name="bulk_approve"),
    path("live/", live_views.stream, name="live"),
    path("live/changes/", live_views.changes, name="changes"),
    path("views/", preferences.save_view, name="save_view"),
    path("views/<int:view_id>/remove/", preferences.remove_view, name="remove_view"),
    path("order/", preferences.choose_order, name="choose_order"),
    path("keyboard/", preferences.keyboard, name="keyboard"),
    path("mailboxes/", mailbox_views.index, name="mailboxes"),
    path("mailboxes/<uuid:mailbox_id>/", mailbox_views.page, name="mailbox"),
    path("mailboxes/<uuid:mailbox_id>/rules/", mailbox_views.rules, name="rules"),
    path("mailboxes/<uuid:mailbox_id>/pause/", mailbox_views.pause, name="pause_mailbox"),
    path("mailboxes/<uuid:mailbox_id>/disconnect/", mailbox_views.leave_off, name="disconnect"),
    path("mailboxes/<uuid:mailbox_id>/invite/", member_views.invite, name="invite"),
    path(
        "mailboxes/<uuid:mailbox_id>/invitations/<int:invitation_id>/withdraw/",
        member_views.withdraw,
        name="withdraw",
    ),
    path(
        "mailboxes/<uuid:mailbox_id>/members/<int:user_id>/role/",
        member_views.change_role,
        name="change_role",
    ),
    path(
        "mailboxes/<uuid:mailbox_id>/members/<int:user_id>/remove/",
        member_views.remove,
        name="remove_member",
    ),
    path("deputies/", deputy_views.index, name="deputies"),
    path("deputies/<int:row_id>/end/", deputy_views.end, name="end_deputyship"),
    path("numbers/", numbers.index, name="numbers"),
    path("numbers/export/", numbers.export, name="numbers_export"),
    path("webhooks/", webhook_views.index, name="webhooks"),
    path("webhooks/new/", webhook_views.create, name="new_webhook"),
    path("webhooks/<uuid:webhook_id>/", webhook_views.page, name="webhook"),
    path("webhooks/<uuid:webhook_id>/remove/", webhook_views.remove, name="remove_webhook"),
    path(
        "webhooks/<uuid:webhook_id>/deliveries/<uuid:delivery_id>/again/",
        webhook_views.redeliver,
        name="deliver_again",
    ),
    path("notifications/", notification_views.index, name="notifications"),
    path("notifications/email/", notification_views.add_email, name="add_email_channel"),
    path(
        "notifications/<uuid:channel_id>/",
        notification_views.change_channel,
        name="change_channel",
    ),
    path(
        "notifications/<uuid:channel_id>/test/",
        notification_views.test_channel,
        name="test_channel",
    ),
    path(
        "notifications/<uuid:channel_id>/resume/",
        notification_views.resume_channel,
        name="resume_channel",
    ),
    path(
        "notifications/<uuid:channel_id>/remove/",
        notification_views.remove_channel,
        name="remove_channel",
    ),
    path("audit/", audit_views.index, name="audit"),
    path("audit/security/", security_views.index, name="audit_security"),
    path("audit/export/", audit_views.export, name="audit_export"),
    path("audit/verify/", audit_views.verify, name="audit_verify"),
    path("invitations/<str:secret>/", member_views.invitation, name="invitation"),
]
