"""PostgreSQL notifies open pages and waiting programs when a transaction has recorded events.

The trigger runs at the end of the transaction, and the notification says nothing but that there are
events. NOTIFY makes commits wait for each other, so of several transactions that end together only
the one that gets the lock notifies (`approvals/audit/feed.py`).
"""

from typing import Any

from django.db import migrations

INSTALL = """
CREATE FUNCTION approvals_auditevent_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_try_advisory_xact_lock(hashtext('mailhub_events')) THEN
        PERFORM pg_notify('mailhub_events', '');
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER approvals_auditevent_notify AFTER INSERT ON approvals_auditevent
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION approvals_auditevent_notify();
"""
REMOVE = """
DROP TRIGGER approvals_auditevent_notify ON approvals_auditevent;
DROP FUNCTION approvals_auditevent_notify();
"""


def run(sql: str) -> Any:
    def on_postgresql(apps: Any, schema_editor: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(sql)

    return on_postgresql


class Migration(migrations.Migration):
    dependencies = [("approvals", "0019_notifications")]

    operations = [migrations.RunPython(run(INSTALL), run(REMOVE))]
