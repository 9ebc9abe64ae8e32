"""Rights that end while mail waits: of a program, and of mailhub at a mailbox."""

import http.client
import time
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Literal
from urllib.parse import urlencode

from tests.faults.facts import Withdrawal
from tests.faults.plant import Plant
from tests.support.processes.person import Forms, Person, request

GONE = (OSError, http.client.HTTPException)  # the server was killed, or is not back yet
Change = Literal["account", "server", "password"]
CHANGES: tuple[Change, ...] = ("account", "server", "password")
CONNECT_SECONDS = 120.0


class Rights:
    """Takes rights away as people and programs do, and notes each time in `withdrawals`.

    A change that may not have happened is not noted: then nothing can be said about the mail.
    """

    def __init__(self, plant: Plant, random: Random) -> None:
        self._plant = plant
        self._random = random
        self._number = 0
        self.withdrawals: list[Withdrawal] = []
        self.ended: set[str] = set()  # the addresses whose sign-in at the provider has ended

    def revoke_token(self) -> bool:
        """Revoke the token of the present program, as the person who owns it."""
        return self._end_program(self._revoke)

    def end_sign_in(self) -> bool:
        """Let the present program end its own sign-in, if it has one."""
        return bool(self._plant.program.refresh) and self._end_program(self._give_back)

    def _end_program(self, end: Callable[[], bool]) -> bool:
        if not self._plant.has_next_program or not self._plant.owner_links:
            return False
        subject, began = self._plant.program.id, datetime.now(UTC)
        try:
            ended = end()
        except GONE:
            return False
        if ended:
            self._note(subject, began)
            self._plant.next_program()
        return ended

    def _revoke(self) -> bool:
        owner = Person(self._plant.url)
        path = f"/sign-in/{self._plant.owner_links.pop()}/"
        page = owner.get(path)
        if page.status != 200:
            return False
        address, fields = Forms(page.text).found["sign-in"]
        owner.post(address or path, fields)
        address = f"/tokens/{self._plant.program.id}/revoke/"
        fields = Forms(owner.get("/tokens/").text).at.get(address, {})
        answer = owner.post(address, fields)
        return answer.status == 302 and answer.headers.get("Location") == "/tokens/"

    def _give_back(self) -> bool:
        program = self._plant.program
        body = urlencode({"client_id": program.client, "token": program.refresh}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = request(f"{self._plant.url}/oauth/revoke", "POST", body=body, headers=headers)
        return answer.status == 200

    def change_connection(self) -> bool:
        """Connect a mailbox to another account or server, or with another password."""
        addresses = self._addresses("imap")
        if not addresses:
            return False
        address, change = self._random.choice(addresses), self._random.choice(CHANGES)
        self._number += 1  # no account is the same as one before, also after a restore
        began = datetime.now(UTC)
        if not self._plant.connect(address, change=change, number=self._number):
            return False
        if change != "password":
            self._note(self._plant.mailbox_of(address), began)
        return True

    def end_mailbox_sign_in(self) -> str:
        """End mailhub's sign-in at the provider of a mailbox, and return its address."""
        addresses = [each for each in self._addresses("gmail") if each not in self.ended]
        if not addresses:
            return ""
        address = self._random.choice(addresses)
        self.ended.add(address)
        self._plant.provider.end_sign_in(address)
        return address

    def connect_again(self, address: str) -> None:
        """Try to sign in again at the provider, and to connect the mailbox with that."""
        if address in self.ended and self._plant.connect(address):
            self.ended.remove(address)

    def connect_all_again(self) -> None:
        """Connect each of these mailboxes, when no other blow is in the way."""
        deadline = time.monotonic() + CONNECT_SECONDS
        while self.ended:
            assert time.monotonic() < deadline, f"not connected again: {self.ended}"
            for address in sorted(self.ended):
                self.connect_again(address)

    def _addresses(self, kind: str) -> list[str]:
        setup = self._plant.setup
        return [each for each in setup.addresses if setup.kind_of(each) == kind]

    def _note(self, subject: str, began: datetime) -> None:
        ended = datetime.now(UTC)
        self.withdrawals.append(Withdrawal(subject=subject, began=began, ended=ended))
