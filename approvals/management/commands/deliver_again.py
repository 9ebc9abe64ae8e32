from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from approvals.models import WebhookDelivery
from approvals.outbound.webhooks.subscriptions import deliver_again


def delivery_id(text: str) -> UUID:
    return UUID(text.removeprefix("msg_"))


class Command(BaseCommand):
    help = "Sends one delivery of a webhook again, with as many attempts as a new one."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("delivery", type=delivery_id, help="the id in webhook-id")

    def handle(self, *args: Any, delivery: UUID, **options: Any) -> None:
        found = WebhookDelivery.objects.select_related("webhook").filter(pk=delivery).first()
        if found is None:
            raise CommandError("There is no such delivery. Deliveries are kept for 30 days.")
        deliver_again(found.webhook, found.pk)
        self.stdout.write(f"{found.event} will be sent again within seconds.")
