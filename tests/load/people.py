"""The people, mailboxes, rules and tokens of a load."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from uuid import UUID

from accounts.models import ApiToken, Mailbox, Membership, Role, User
from approvals.models import ApprovalPolicy, AuditChain, Pause
from tests.load.writing import Writer

# People who approve for so many mailboxes, to try how the pages do for each of them.
SIZES = (5, 50, 1_000, 10_000)
MAILBOXES_OF_AN_OWNER = 20
PAUSED_EVERY = 40
DAILY_CAP = 500
PROGRAM = "assistant"
NO_PASSWORD = {"password": "!"}


@dataclass(frozen=True, kw_only=True)
class Box:
    """A mailbox of the load, with its owner and the token that proposes for it."""

    id: UUID
    address: str
    owner: int
    membership: int
    token: UUID
    paused: bool


def random_id(chosen: Random) -> UUID:
    return UUID(int=chosen.getrandbits(128), version=4)


def domain_of(seed: int) -> str:
    return f"load{seed}.example"


def write_mailboxes(
    writer: Writer, *, mailboxes: int, seed: int, chosen: Random, began: datetime
) -> list[Box]:
    """Write the mailboxes with their people, and return them.

    No mailbox has access data, so no worker can read or send mail there.
    """
    owners = -(-mailboxes // MAILBOXES_OF_AN_OWNER)
    names = [f"owner{number}" for number in range(owners)]
    sizes = [size for size in SIZES if size < mailboxes]
    names += [*(f"person{size}" for size in sizes), "everything"]
    people = _create_people(names, seed, began)
    tokens = [_create_token(writer, people[owner], seed, chosen, began) for owner in range(owners)]
    members = [*zip(sizes, people[owners:], strict=False), (mailboxes, people[-1])]
    # Decisions name the membership on which they rest, so its id is needed before the others.
    managers = Membership.objects.bulk_create(
        Membership(
            mailbox_id=random_id(chosen),
            user_id=people[number // MAILBOXES_OF_AN_OWNER],
            role=Role.MANAGER,
            created_at=began - timedelta(days=1),
        )
        for number in range(mailboxes)
    )
    boxes = []
    for number, manager in enumerate(managers):
        box = Box(
            id=manager.mailbox_id,
            address=f"box{number}@{domain_of(seed)}",
            owner=manager.user_id,
            membership=manager.pk,
            token=tokens[number // MAILBOXES_OF_AN_OWNER],
            paused=number % PAUSED_EVERY == PAUSED_EVERY - 1,
        )
        _add_mailbox(writer, box, began)
        for size, person in members:
            if number < size:
                writer.add(_member(box, person, Role.APPROVER, began))
        boxes.append(box)
    return boxes


def _create_people(names: list[str], seed: int, began: datetime) -> list[int]:
    people = User.objects.bulk_create(
        User(email=f"{name}@{domain_of(seed)}", address_proven_at=began, **NO_PASSWORD)
        for name in names
    )
    return [person.pk for person in people]


def _create_token(writer: Writer, owner: int, seed: int, chosen: Random, began: datetime) -> UUID:
    """Write a token whose secret nobody knows."""
    key = random_id(chosen)
    digest = hashlib.sha256(chosen.randbytes(32)).hexdigest()
    writer.add(
        ApiToken(
            id=key,
            user_id=owner,
            name=PROGRAM,
            digest=digest,
            hint=f"load{seed}"[:12],
            scopes=["mail:propose", "mail:read"],
            created_at=began,
        )
    )
    return key


def _add_mailbox(writer: Writer, box: Box, began: datetime) -> None:
    writer.add(
        Mailbox(id=box.id, address=box.address, provider="imap", credentials=b"", scopes=[]),
        AuditChain(id=box.id, mailbox_id=box.id),
        ApprovalPolicy(mailbox_id=box.id, daily_cap=DAILY_CAP),
    )
    link = ApiToken.mailboxes.through
    writer.add(link(apitoken_id=box.token, mailbox_id=box.id))
    if box.paused:
        writer.add(Pause(mailbox_id=box.id, since=began))


def _member(box: Box, person: int, role: Role, since: datetime) -> Membership:
    return Membership(mailbox_id=box.id, user_id=person, role=role, created_at=since)
