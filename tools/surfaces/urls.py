from django.urls import path

from tools.surfaces import file_views, folder_views, views

urlpatterns = [
    path("compose/", views.compose, name="compose"),
    path("drafts/", views.drafts, name="drafts"),
    path("drafts/delete/", views.delete_draft, name="delete_draft"),
    path("drafts/send/", views.send_draft, name="send_draft"),
    path("mailboxes/<uuid:mailbox_id>/folders/", folder_views.folders, name="folders"),
    path("commands/", views.commands, name="commands"),
    path("actions/<uuid:action_id>/conversation/", views.conversation, name="conversation"),
    path("actions/<uuid:action_id>/recipients/", views.recipients, name="recipients"),
    path("actions/<uuid:action_id>/files/<str:sha256>/", file_views.show, name="action_file"),
    path(
        "actions/<uuid:action_id>/files/<str:sha256>/<int:page>.png",
        file_views.picture,
        name="action_picture",
    ),
    path(
        "actions/<uuid:action_id>/files/<str:sha256>/download/",
        file_views.download,
        name="action_download",
    ),
    path("actions/<uuid:action_id>/received/", file_views.show_received, name="received_file"),
    path("actions/<uuid:action_id>/received/<int:page>.png", file_views.received_picture),
    path("actions/<uuid:action_id>/received/download/", file_views.download_received),
]
