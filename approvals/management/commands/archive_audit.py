from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from approvals.audit import archive, retention

WORDS = {
    "busy": "another process archives",
    "moved": "another process archives",
    "action": "an action that is not finished has event {at}",
    "webhook": "a webhook still needs event {at}",
    "notification": "notifications of event {at} were not made yet",
    "decision": "event {at} proves a decision of an older version",
    "anchors": "the chain does not fit its anchors. Run `manage.py verify_audit`",
    "broken": "event {at} is not what it was. Run `manage.py verify_audit`",
    "differs": "event {at} is another one in {file}. Move the files of the older database away",
    "damaged": "{file} is damaged. Take it from a backup, or move it away",
}


class Command(BaseCommand):
    help = (
        "Moves audit events older than MAILHUB_AUDIT_RETENTION_DAYS to the archive: writes and checks a file, "
        "then removes them from the database. You may interrupt it and run it again."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.MAILHUB_AUDIT_RETENTION_DAYS:
            self.stdout.write("MAILHUB_AUDIT_RETENTION_DAYS is 0: all events stay in the database.")
            return
        archived = problems = 0
        try:
            for step in retention.archive_old():
                archived += step.archived
                problems += step.stopped in retention.PROBLEMS
                self._say(step)
        except OSError as error:
            raise CommandError(f"The archive cannot be used: {error.strerror}.") from error
        self.stdout.write(f"{archived} events went to {archive.archive_folder()}.")
        if problems:
            raise CommandError(f"{problems} chains could not be archived.")

    def _say(self, step: retention.Step) -> None:
        if step.archived:
            self.stdout.write(f"{step.file}: {step.archived} events")
        if step.stopped:
            why = WORDS[step.stopped].format(at=step.at, file=step.file)
            self.stdout.write(f"{step.chain} stops here: {why}.")
