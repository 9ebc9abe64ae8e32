"""The floors: the durable steps of a mail in hand-written SQL, and plain smtplib.

The steps of `Floor` write the rows that mailhub writes, in the same number of transactions, on the
real schema with its triggers. They leave out what mailhub reads to decide whether it may.
"""

import os
import smtplib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

SENDER, RECIPIENT = "floor@lovelace.example", "mira@northwind.example"
DECIDE = """
INSERT INTO approvals_decision
  (action_id, person_id, verdict, revision, approval_round, digest, note, created_at, method, seal)
SELECT id, %s, 'approved', revision, approval_round, digest, '', now(), '', 'floor'
FROM approvals_pendingaction WHERE id = %s
"""
APPROVE = """
UPDATE approvals_pendingaction SET status = 'approved', approvals_given = 1, approved_at = now(),
  undo_until = now(), not_before = now(), order_seal = 'floor'
WHERE id = %s AND status = 'pending'
"""
CLAIM = """
UPDATE approvals_pendingaction SET status = 'executing', fence = fence + 1,
  lease_until = now() + interval '1 minute'
WHERE id = %s AND status = 'approved'
"""
ATTEMPT = """
INSERT INTO approvals_attempt (action_id, fence, phase, code, evidence, reference, worker, started_at)
VALUES (%s, 1, 'prepared', '', '', '', 'floor', now())
"""
WIRE = """
UPDATE approvals_attempt SET phase = 'wire_started', wire_started_at = now()
WHERE action_id = %s AND phase = 'prepared'
"""
END = """
UPDATE approvals_attempt SET verdict = 'accepted', evidence = 'answer', ended_at = now()
WHERE action_id = %s AND verdict IS NULL
"""
SUCCEED = """
UPDATE approvals_pendingaction SET status = 'succeeded', lease_until = NULL, receipt = '{}',
  finished_at = now(), settle_at = now()
WHERE id = %s AND status = 'executing'
"""
EVENT = """
INSERT INTO approvals_auditevent
  (chain_id, mailbox_id, sequence, at, event, action_id, actor, data, previous, hash)
VALUES (%s, %s, %s, now(), %s, %s, 'floor', '{}', %s, %s)
"""
LENGTHEN = "UPDATE approvals_auditchain SET length = %s, head = %s WHERE id = %s"


class Floor:
    """F: propose, approve and execute in SQL; each new action has the content of an earlier one."""

    def __init__(self, url: str, template: UUID, *, person: int, journal: Path) -> None:
        self._connection = psycopg.connect(url)
        self._person, self._journal = person, journal
        self._rows = {
            table: self._read(table, key, template)
            for table, key in (
                ("pendingaction", "id"),
                ("revision", "action_id"),
                ("blob", "action_id"),
            )
        }
        self._inserts = {
            table: sql.SQL("INSERT INTO {} ({}) VALUES ({})")
            .format(
                sql.Identifier(f"approvals_{table}"),
                sql.SQL(", ").join(map(sql.Identifier, row)),
                sql.SQL(", ").join(map(sql.Placeholder, row)),
            )
            .as_string(None)
            for table, row in self._rows.items()
        }
        self._chain = self._rows["pendingaction"]["mailbox_id"]

    def propose(self) -> UUID:
        action_id = uuid4()
        changes = {"id": action_id, "message_id": f"<{action_id}@floor.example>"}
        self._run(self._inserts["pendingaction"], self._rows["pendingaction"] | changes)
        for table in ("revision", "blob"):
            self._run(self._inserts[table], self._rows[table] | {"action_id": action_id})
        self._record("created", action_id)
        self._connection.commit()
        return action_id

    def approve(self, action_id: UUID) -> None:
        lock = "SELECT status, digest FROM approvals_pendingaction WHERE id = %s FOR NO KEY UPDATE"
        self._run(lock, [action_id])
        self._run(DECIDE, [self._person, action_id])
        self._run(APPROVE, [action_id])
        self._record("approved", action_id)
        self._connection.commit()

    def execute(self, action_id: UUID) -> None:
        """Claim, note that the wire starts, also in the journal, and record the outcome."""
        self._run(CLAIM, [action_id])
        self._run(ATTEMPT, [action_id])
        self._record("claimed", action_id)
        self._connection.commit()
        self._run(WIRE, [action_id])
        self._connection.commit()
        with self._journal.open("a") as file:
            file.write(f"{action_id}\n")
            file.flush()
            os.fsync(file.fileno())
        self._run(END, [action_id])
        self._run(SUCCEED, [action_id])
        self._record("outcome_accepted", action_id)
        self._connection.commit()

    def close(self) -> None:
        self._connection.close()

    def _read(self, table: str, key: str, template: UUID) -> dict[str, Any]:
        """Return the row of the template without its number, as it is inserted again."""
        found = self._connection.execute(
            sql.SQL("SELECT * FROM {} WHERE {} = %s").format(
                sql.Identifier(f"approvals_{table}"), sql.Identifier(key)
            ),
            [template],
        )
        values = found.fetchone()
        assert found.description is not None
        assert values is not None
        names = [column.name for column in found.description]
        row = dict(zip(names, values, strict=True))
        if key != "id":
            del row["id"]
        return {
            name: Jsonb(value) if isinstance(value, dict | list) else value
            for name, value in row.items()
        }

    def _record(self, event: str, action_id: UUID) -> None:
        end = "SELECT length, head FROM approvals_auditchain WHERE id = %s FOR NO KEY UPDATE"
        ((length, head),) = self._run(end, [self._chain]).fetchall()
        link = uuid4().hex * 2
        self._run(EVENT, [self._chain, self._chain, length + 1, event, action_id, head, link])
        self._run(LENGTHEN, [length + 1, link, self._chain])

    def _run(self, text: str, values: Sequence[Any] | dict[str, Any]) -> psycopg.Cursor[Any]:
        done = self._connection.execute(text, values, prepare=True)
        assert done.rowcount == 1, text
        return done


def letter() -> str:
    return (
        f"From: {SENDER}\r\nTo: {RECIPIENT}\r\nSubject: Hello\r\nMessage-ID: <{uuid4().hex}@lovelace.example>\r\n"
        "Date: Mon, 02 Nov 2026 10:00:00 +0100\r\n\r\nHello Mira,\r\nuntil Thursday.\r\nAlice\r\n"
    )


@contextmanager
def signed_in(port: int) -> Iterator[smtplib.SMTP]:
    """Yield a connection, signed in. The fixed host name keeps smtplib from asking the resolver."""
    with smtplib.SMTP("127.0.0.1", port, local_hostname="localhost") as smtp:
        smtp.login("user", "password")
        yield smtp


def send(port: int) -> None:
    """Send one mail over a fresh connection, as any program does."""
    with signed_in(port) as smtp:
        smtp.sendmail(SENDER, [RECIPIENT], letter())


def keep_sending(port: int, number: int) -> None:
    """Send this number of mails over one kept connection."""
    with signed_in(port) as smtp:
        for _ in range(number):
            smtp.sendmail(SENDER, [RECIPIENT], letter())
