"""Rules that the database enforces for every client: one rule for each trigger."""

from collections.abc import Sequence
from dataclasses import dataclass

from accounts.infra.fields import TEXT_MARK
from accounts.infra.keys import MAGIC
from approvals.core.at_rest import READABLE
from approvals.core.states import FINAL, TRANSITIONS


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A change that the database refuses.

    `refused_when` is SQL over OLD and NEW. The names in braces are words of the database's dialect.
    """

    name: str
    table: str
    event: str
    refused_when: str
    says: str


def is_changed(*columns: str) -> str:
    """Return SQL that is true if one of these columns gets another value."""
    return " OR ".join(f"NEW.{column} {{differs}} OLD.{column}" for column in columns)


def forbid(table: str, event: str) -> Rule:
    """Return the rule that no row of a table is ever changed, or ever deleted."""
    did = {"UPDATE": "changed", "DELETE": "deleted"}[event]
    return Rule(
        name=f"{table}_never_{did}",
        table=f"approvals_{table}",
        event=event,
        refused_when="1 = 1",
        says=f"this is never {did}",
    )


def _join_values(values: Sequence[str]) -> str:
    return ", ".join(f"'{value}'" for value in values)


_ALLOWED = " OR ".join(
    f"(OLD.status = '{source}' AND NEW.status IN ({_join_values(sorted(targets))}))"
    for source, targets in TRANSITIONS.items()
)


# The people who approved this revision, digest and round. Authors count only where one approval is
# enough and the rules of the mailbox let them approve. Roles and their days are in another package:
# the claim judges them.
_PEOPLE = """(
    SELECT COUNT(DISTINCT said.person_id) FROM approvals_decision AS said
    WHERE said.action_id = NEW.id AND said.verdict = 'approved' AND said.revision = NEW.revision
    AND said.digest = NEW.digest AND said.approval_round = NEW.approval_round
    AND ((NEW.approvals_needed = 1 AND NOT EXISTS (
        SELECT 1 FROM approvals_approvalpolicy AS rules WHERE rules.mailbox_id = NEW.mailbox_id
        AND (NOT rules.self_approval OR rules.approvals_needed > 1)
    )) OR NOT EXISTS (
        SELECT 1 FROM approvals_author AS wrote
        WHERE wrote.action_id = NEW.id AND wrote.person_id = said.person_id
    )))"""


# An approval and a claim are orders. The outcome of an attempt is evidence, whatever the rules are by then:
# its action comes back as approved, and the next claim asks again. A mail in Sent after a restore is evidence too.
_ORDERED = (
    "((OLD.status = 'pending' AND NEW.status = 'approved') OR (OLD.status = 'approved' AND"
    " NEW.status = 'executing' AND NOT (OLD.unreconciled AND NOT NEW.unreconciled)))"
)


# The people who have to be authors of an action before it gets this revision, but are not.
_MISSING_AUTHORS = """EXISTS (
    SELECT 1 FROM (
        SELECT NEW.author_id AS person_id
        UNION SELECT a.proposer_id FROM approvals_pendingaction AS a WHERE a.id = NEW.action_id
        UNION SELECT w.person_id FROM approvals_author AS w
        JOIN approvals_pendingaction AS a ON a.replaces_id = w.action_id WHERE a.id = NEW.action_id
        UNION SELECT d.person_id FROM approvals_decision AS d
        JOIN approvals_pendingaction AS a ON a.replaces_id = d.action_id
        WHERE a.id = NEW.action_id AND d.verdict = 'changes_requested'
    ) AS wrote WHERE NOT EXISTS (
        SELECT 1 FROM approvals_author AS own
        WHERE own.action_id = NEW.action_id AND own.person_id = wrote.person_id
    ))"""


# An accepted attempt closes the action, even if it is not the latest one. Otherwise the latest
# attempt decides. A person's ruling moves an unknown action only to a new round of approvals.
_BACKED = """EXISTS (
    SELECT 1 FROM approvals_attempt AS tried
    WHERE tried.action_id = NEW.id AND CASE NEW.status
    WHEN 'succeeded' THEN tried.verdict = 'accepted'
    WHEN 'failed' THEN tried.fence = NEW.fence AND tried.verdict = 'refused'
    WHEN 'approved' THEN tried.fence = NEW.fence AND tried.verdict = 'not_sent' AND tried.ruled_at IS NULL
    WHEN 'pending' THEN tried.fence = NEW.fence AND tried.verdict = 'not_sent' AND tried.ruled_at IS NOT NULL
    ELSE tried.fence = NEW.fence AND tried.verdict = 'unknown' END)"""


def _action(name: str, refused_when: str, says: str, event: str = "UPDATE") -> Rule:
    return Rule(
        name=name,
        table="approvals_pendingaction",
        event=event,
        refused_when=refused_when,
        says=says,
    )


def _child(row: str, condition: str) -> str:
    """Return SQL that is true if this row has no action that meets the condition."""
    # No part of this text comes from outside, so it needs no parameters.
    of_row = f"FROM approvals_pendingaction AS a WHERE a.id = {row}.action_id"
    return f"NOT EXISTS (SELECT 1 {of_row} AND {condition})"


def _is_only_encrypted() -> str:
    """Return SQL that is true if the preview is encrypted and its readable part did not change."""
    same = [
        f"NOT ({{member}}(NEW.preview, '{{at}}{name}') {{differs}} {{member}}(OLD.preview, '{{at}}{name}'))"
        for name in READABLE
    ]
    return " AND ".join(["NEW.sealed_preview IS NOT NULL", *same])


def _is_in_clear(column: str) -> str:
    """Return SQL that is true if a column takes bytes that are not encrypted; NULL is ignored."""
    begins = f"{{hex}}substr(NEW.{column}, 1, {len(MAGIC)}){{end}}"
    # SQLite's hex of NULL is an empty text.
    return f"NEW.{column} IS NOT NULL AND {begins} <> '{MAGIC.hex()}'"


_ENDED = f"a.status IN ({_join_values(FINAL)})"


# The guards forbid orders, and never evidence: an acceptance can always be written. Other evidence of
# the provider replaces only the word of a person, or no proof at all.
_CORRECTED = (
    "NEW.verdict = 'accepted' OR (OLD.verdict = 'not_sent' AND OLD.proof = ''"
    " AND NEW.evidence IN ('answer', 'probe') AND NEW.verdict IN ('not_sent', 'refused')"
    f" AND NOT ({is_changed('phase', 'wire_started_at')}))"
)


_CLAIMED = "a.status = 'executing' AND a.fence = NEW.fence"


RULES = (
    _action(
        "action_born_pending",
        "NEW.status <> 'pending' OR NEW.fence <> 0 OR NEW.revision <> 1 OR NEW.approval_round <> 1"
        " OR NEW.approvals_given <> 0",
        "an action begins undecided",
        event="INSERT",
    ),
    _action(
        "action_frozen",
        is_changed(
            "id",
            "kind",
            "tool",
            "mailbox_id",
            "proposer_id",
            "proposer_name",
            "token_id",
            "replaces_id",
            "message_id",
            "approvals_needed",
        ),
        "what an action is never changes",
    ),
    _action(
        "action_send_time",
        f"{is_changed('send_at')} AND NEW.revision = OLD.revision",
        "the time at which it leaves changes only by a new revision",
    ),
    _action(
        "action_news_is_told",
        f"({is_changed('token_generation', 'mailbox_generation')}) AND NEW.revision = OLD.revision",
        "what happened around it is told only by a new revision",
    ),
    _action(
        "action_transition",
        f"NEW.status <> OLD.status AND NOT ({_ALLOWED})",
        "there is no way to that state",
    ),
    _action(
        "action_payload_frozen",
        "(NEW.digest <> OLD.digest OR NEW.revision <> OLD.revision) AND NOT (OLD.status = 'pending' AND"
        " NEW.status = 'pending' AND NEW.revision = OLD.revision + 1 AND EXISTS (SELECT 1 FROM approvals_revision AS r"
        " WHERE r.action_id = NEW.id AND r.number = NEW.revision AND r.digest = NEW.digest))",
        "the content changes only while it is pending, by a new revision",
    ),
    _action(
        "action_needs_decisions",
        f"{_ORDERED} AND {_PEOPLE} < NEW.approvals_needed",
        "not enough people have approved exactly this",
    ),
    _action(
        "action_unreconciled",
        "OLD.unreconciled AND NEW.unreconciled AND NEW.status <> OLD.status"
        " AND (NEW.status = 'executing' OR (OLD.status = 'pending' AND NEW.status = 'approved'))",
        "it came back with an older copy, and nobody has looked whether it was sent since",
    ),
    _action(
        "action_round",
        "(NEW.approval_round <> OLD.approval_round AND NOT (NEW.approval_round = OLD.approval_round + 1 AND"
        " NEW.status = 'pending')) OR (OLD.status IN ('approved', 'unknown') AND NEW.status = 'pending' AND"
        " NEW.approval_round = OLD.approval_round)",
        "a new round begins with what goes back to pending, and only then",
    ),
    _action(
        "action_fence",
        "(NEW.fence <> OLD.fence OR (NEW.status = 'executing' AND OLD.status <> 'executing')) AND NOT"
        " (NEW.fence = OLD.fence + 1 AND OLD.status = 'approved' AND NEW.status = 'executing')",
        "a claim, and nothing else, moves the fence by one",
    ),
    _action(
        "action_outcome_backed",
        "(OLD.status IN ('executing', 'unknown') OR NEW.status = 'succeeded') AND NEW.status <> OLD.status"
        f" AND NOT {_BACKED}",
        "the attempt says something else",
    ),
    _action(
        "action_receipt_final",
        f"OLD.status = 'succeeded' AND ({is_changed('receipt')})",
        "a receipt is final",
    ),
    _action("action_never_deleted", "1 = 1", "this is never deleted", event="DELETE"),
    Rule(
        name="revision_of_pending",
        table="approvals_revision",
        event="INSERT",
        refused_when=_child(
            "NEW", "a.status = 'pending' AND NEW.number IN (a.revision, a.revision + 1)"
        ),
        says="a revision is added while the action is pending",
    ),
    Rule(
        name="revision_of_authors",
        table="approvals_revision",
        event="INSERT",
        refused_when=_MISSING_AUTHORS,
        says="the authors of the content are those of the action",
    ),
    forbid("author", "UPDATE"),
    forbid("author", "DELETE"),
    Rule(
        name="revision_final",
        table="approvals_revision",
        event="UPDATE",
        # An encrypted column may take another record, because only the holder of a key can make one
        # that opens. A row keeps one content for ever, so the new record is the same content under
        # another key, or damage. Damaged content never leaves.
        refused_when=is_changed(*"id action_id number author_id changed digest created_at".split())
        + f" OR (({is_changed('payload')}) AND (NEW.payload <> '{{{{}}}}' OR"
        f" (NEW.sealed_payload IS NULL AND {_child('NEW', _ENDED)})))"
        + f" OR (({is_changed('preview')}) AND NOT ({_is_only_encrypted()}) AND"
        f" (NEW.preview <> '{{{{}}}}' OR {_child('NEW', _ENDED)}))"
        + "".join(
            f" OR (OLD.{column} IS NOT NULL AND NEW.{column} IS NULL AND {_child('NEW', _ENDED)})"
            + f" OR (({is_changed(column)}) AND {_is_in_clear(column)})"
            for column in ("sealed_payload", "sealed_preview")
        ),
        says="a revision is never changed, only encrypted, and emptied after the end",
    ),
    forbid("revision", "DELETE"),
    Rule(
        name="blob_of_pending",
        table="approvals_blob",
        event="INSERT",
        refused_when=_child("NEW", "a.status = 'pending'"),
        says="bytes are added while the action is pending",
    ),
    Rule(
        name="blob_never_changed",
        table="approvals_blob",
        event="UPDATE",
        refused_when=is_changed("id", "action_id", "sha256")
        + f" OR (({is_changed('content')}) AND {_is_in_clear('content')})",
        says="bytes are never changed, only encrypted",
    ),
    Rule(
        name="blob_deleted_after_the_end",
        table="approvals_blob",
        event="DELETE",
        refused_when=_child("OLD", _ENDED),
        says="bytes are deleted after the end",
    ),
    *(
        rule
        for table in ("proposernote", "metadatapair")
        for rule in (
            Rule(
                name=f"{table}_with_the_proposal",
                table=f"approvals_{table}",
                event="INSERT",
                refused_when=_child("NEW", "a.status = 'pending' AND a.revision = 1"),
                says="a proposer says something about an action only with the proposal",
            ),
            Rule(
                name=f"{table}_deleted_after_the_end",
                table=f"approvals_{table}",
                event="DELETE",
                refused_when=_child("OLD", _ENDED),
                says="this is deleted after the end",
            ),
        )
    ),
    Rule(
        name="proposernote_never_changed",
        table="approvals_proposernote",
        event="UPDATE",
        refused_when=is_changed("action_id")
        + "".join(
            f" OR (({is_changed(column)}) AND substr(NEW.{column}, 1, {len(TEXT_MARK)}) <> '{TEXT_MARK}')"
            for column in ("reason", "callback_url")
        ),
        says="the words of the proposer are never changed, only encrypted",
    ),
    forbid("metadatapair", "UPDATE"),
    Rule(
        name="decision_of_what_is_there",
        table="approvals_decision",
        event="INSERT",
        refused_when="NEW.verdict = 'approved' AND "
        + _child(
            "NEW",
            "a.status = 'pending' AND a.revision = NEW.revision AND a.digest = NEW.digest"
            " AND a.approval_round = NEW.approval_round",
        ),
        says="an approval names what is stored now",
    ),
    Rule(
        name="decision_of_a_new_revision",
        table="approvals_decision",
        event="INSERT",
        refused_when="NEW.verdict = 'approved' AND EXISTS (SELECT 1 FROM approvals_decision AS void"
        " WHERE void.action_id = NEW.action_id AND void.revision = NEW.revision"
        " AND void.approval_round < NEW.approval_round)",
        says="decisions about this revision are void, so another approval needs another revision",
    ),
    Rule(
        name="decision_final",
        table="approvals_decision",
        event="UPDATE",
        refused_when=is_changed(
            "id",
            "action_id",
            "person_id",
            "verdict",
            "revision",
            "approval_round",
            "digest",
            "created_at",
            "method",
            "membership",
            "account_generation",
        )
        # A signature may be replaced by one of another key. A decision without one never gets one.
        + f" OR (({is_changed('seal')}) AND (OLD.seal = '' OR NEW.seal = ''))"
        + f" OR (({is_changed('note')}) AND substr(NEW.note, 1, {len(TEXT_MARK)}) <> '{TEXT_MARK}'"
        f" AND (NEW.note <> '' OR {_child('NEW', _ENDED)}))",
        says="a decision is never changed, only its note emptied after the end",
    ),
    forbid("decision", "DELETE"),
    Rule(
        name="attempt_of_a_claim",
        table="approvals_attempt",
        event="INSERT",
        refused_when="NEW.phase <> 'prepared' OR NEW.verdict IS NOT NULL OR "
        + _child("NEW", _CLAIMED),
        says="an attempt begins with a claim",
    ),
    Rule(
        name="attempt_forward",
        table="approvals_attempt",
        event="UPDATE",
        refused_when=is_changed("id", "action_id", "fence", "worker", "started_at", "account")
        + " OR (OLD.phase = 'wire_started' AND NEW.phase <> 'wire_started')"
        + f" OR (NEW.phase <> OLD.phase AND NEW.verdict IS NULL AND {_child('NEW', _CLAIMED)})"
        + " OR (OLD.verdict IS NOT NULL AND NEW.verdict IS NULL)"
        + f" OR (({is_changed('notes')}) AND NOT (OLD.phase = 'prepared' AND NEW.phase = 'wire_started'))"
        + f" OR (OLD.ruled_at IS NOT NULL AND ({is_changed('ruled_at')}))",
        says="an attempt only goes on",
    ),
    Rule(
        name="attempt_verdict_final",
        table="approvals_attempt",
        event="UPDATE",
        refused_when="OLD.verdict <> 'unknown' AND ("
        + is_changed(*"verdict proof phase code evidence ended_at wire_started_at".split())
        + f") AND NOT ({_CORRECTED})",
        says="a definite verdict is final",
    ),
    Rule(
        name="attempt_second_copy_ordered",
        table="approvals_attempt",
        event="UPDATE",
        refused_when="NEW.phase <> OLD.phase AND NEW.verdict IS NULL AND EXISTS ("
        "SELECT 1 FROM approvals_attempt AS other WHERE other.action_id = NEW.action_id AND other.fence < NEW.fence"
        " AND (other.verdict IN ('accepted', 'unknown') OR (other.phase = 'wire_started' AND other.proof = ''"
        " AND other.ruled_at IS NULL)))",
        says="a second copy leaves only with proof or by order of a person",
    ),
    Rule(
        name="attempt_unsent_is_proven",
        table="approvals_attempt",
        event="UPDATE",
        refused_when="NEW.verdict IN ('not_sent', 'refused') AND NEW.proof = '' AND NEW.evidence <> 'person'"
        " AND (OLD.verdict IS NULL OR OLD.verdict <> NEW.verdict)",
        says="only a proof says that nothing was sent",
    ),
    forbid("attempt", "DELETE"),
    forbid("auditevent", "UPDATE"),
    forbid("auditevent", "DELETE"),
    Rule(
        name="auditchain_grows",
        table="approvals_auditchain",
        event="UPDATE",
        refused_when=is_changed("id", "mailbox_id") + " OR NEW.length <> OLD.length + 1",
        says="a chain only grows",
    ),
    forbid("auditchain", "DELETE"),
)
