from django.urls import path

from approvals.views import bulk, content, decide, following, keeping, queue, review, revise

urlpatterns = [
    path("", queue.index, name="queue"),
    path("actions/", queue.index, name="actions"),
    path("actions/<uuid:action_id>/", review.page, name="review"),
    path("actions/<uuid:action_id>/peek/", review.peek, name="peek"),
    path("actions/<uuid:action_id>/body/", content.body, name="review_body"),
    path("actions/<uuid:action_id>/text/", content.whole, {"part": "text"}, name="whole_text"),
    path("actions/<uuid:action_id>/source/", content.whole, {"part": "source"}, name="whole_source"),
    path("actions/<uuid:action_id>/presence/", following.presence, name="presence"),
    path("actions/<uuid:action_id>/approve/", decide.approve, name="approve"),
    path("actions/<uuid:action_id>/reject/", decide.reject, name="reject"),
    path("actions/<uuid:action_id>/edit/", revise.edit, name="edit"),
    path("actions/<uuid:action_id>/ask_back/", revise.ask_back, name="ask_back"),
    path("actions/<uuid:action_id>/cancel/", decide.cancel, name="cancel"),
    path("actions/<uuid:action_id>/undo/", decide.undo, name="undo"),
    path("actions/<uuid:action_id>/resolve/", decide.resolve, name="resolve"),
    path("bulk/", bulk.confirm, name="bulk"),
    path("bulk/approve/", bulk.approve, name="bulk_approve"),
    path("live/", following.stream, name="live"),
    path("live/changes/", following.changes, name="changes"),
    path("views/", keeping.save_view, name="save_view"),
    path("views/<int:view_id>/remove/", keeping.remove_view, name="remove_view"),
    path("keyboard/", keeping.keyboard, name="keyboard"),
]
