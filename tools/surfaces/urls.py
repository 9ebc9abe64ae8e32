from django.urls import path

from tools.surfaces import views

urlpatterns = [
    path("compose/", views.compose, name="compose"),
    path("drafts/", views.drafts, name="drafts"),
    path("drafts/delete/", views.delete_draft, name="delete_draft"),
    path("drafts/send/", views.send_draft, name="send_draft"),
    path("commands/", views.commands, name="commands"),
    path("actions/<uuid:action_id>/conversation/", views.conversation, name="conversation"),
]
