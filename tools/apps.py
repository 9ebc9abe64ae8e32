from django.apps import AppConfig


class ToolsConfig(AppConfig):
    name = "tools"

    def ready(self) -> None:
        from accounts.people.recovery import rights_taken
        from tools.reading.links import end_links_of_chat

        rights_taken.connect(end_links_of_chat)
