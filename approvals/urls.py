from django.urls import path

from approvals.views import decide, queue, review

urlpatterns = [
    path("", queue.index, name="queue"),
    path("actions/", queue.index, name="actions"),
    path("actions/<uuid:action_id>/", review.page, name="review"),
    path("actions/<uuid:action_id>/body/", review.body, name="review_body"),
    path("actions/<uuid:action_id>/approve/", decide.approve, name="approve"),
    path("actions/<uuid:action_id>/reject/", decide.reject, name="reject"),
    path("actions/<uuid:action_id>/cancel/", decide.cancel, name="cancel"),
    path("actions/<uuid:action_id>/undo/", decide.undo, name="undo"),
]
