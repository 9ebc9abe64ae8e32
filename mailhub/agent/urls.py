from django.urls import path

from mailhub.agent import views

urlpatterns = [
    path("ai/agent/stream", views.agent_stream, name="agent_stream"),
    path("ai/stream", views.plain_stream, name="plain_stream"),
    path("agent/", views.page, name="agent"),
    path("agent/<uuid:thread_id>/", views.page, name="agent_thread"),
    path("agent/<uuid:thread_id>/forget/", views.forget, name="agent_forget"),
    path("mailboxes/<uuid:mailbox_id>/chat/", views.calls, name="chat_calls"),
    path("agent/threads/<path:name>/cards/", views.cards, name="agent_cards"),
    path("agent/threads/<path:name>/talk/", views.talk, name="agent_talk"),
]
