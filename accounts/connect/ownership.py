"""Proof that the person who connects a mailbox by IMAP owns its address."""

from accounts.access.roles import held_mailboxes
from accounts.connect import discovery
from accounts.connect.connecting import Proof, load_access
from accounts.connect.imap import ImapAccess
from accounts.infra.safe_hosts import Endpoint
from accounts.models import Mailbox, Role, User
from accounts.people.address_proof import is_proven

# The IMAP hosts of providers whose addresses suggest OAuth; IMAP works there with a password.
IMAP_OF = {"gmail": {"imap.gmail.com"}, "microsoft": {"outlook.office365.com"}}


def proof_by_imap(person: User, address: str, access: ImapAccess) -> Proof | None:
    """Return how an access that signs in proves the address; None if a code must be mailed there.

    Servers that the person typed prove nothing by themselves, because anybody can run a server that
    accepts any name. The domain of the address names its own servers.
    """
    address = address.strip().lower()
    if person.email == address and person.address_proven_at:
        return "account"
    if is_proven(person, address):
        return "code"
    if _same_servers(person, address, access):
        return "same_servers"
    itself = access.username.strip().lower() == address and access.imap.host.lower() in own_hosts(
        address
    )
    return "sign_in" if itself else None


def own_hosts(address: str) -> set[str]:
    """Return the IMAP hosts that the domain of an address names."""
    found = discovery.discover(address)
    if found.provider != "imap":
        return IMAP_OF[found.provider]
    try:
        return {Endpoint.parse(found.imap).host.lower()}
    except ValueError:  # the domain names none, or what is no host
        return set()


def _same_servers(person: User, address: str, access: ImapAccess) -> bool:
    """Return True if only the password is new: same servers, same user name, and the person manages
    the mailbox.
    """
    managed = held_mailboxes(person, need=Role.MANAGER)
    mailbox = managed.filter(address__iexact=address, provider=Mailbox.Provider.IMAP).first()
    if mailbox is None:
        return False
    now, before = access.as_secrets(), load_access(mailbox)
    return all(before.get(name) == now[name] for name in ("imap", "smtp", "username"))
