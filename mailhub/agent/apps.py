from django.apps import AppConfig


class AgentConfig(AppConfig):
    name = "mailhub.agent"
    label = "agent"
