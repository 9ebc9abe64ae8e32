"""Agents that propose and people who decide, only over HTTP, in several threads that draw from the
seed.
"""

import http.client
import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from uuid import UUID

from tests.faults.facts import Ruling
from tests.faults.plan import CANARY, LINKS
from tests.faults.plant import Plant
from tests.support.processes.person import Answer, Forms, Person, request
from tests.support.processes.programs import until

GONE = (OSError, http.client.HTTPException)  # the server was killed, or is not back yet
RETRY_SECONDS = 0.3
REFUSAL_SECONDS = 60
PAUSE_SECONDS = 0.3  # people are slower than the workers that follow them
STEPS = {
    "propose": 10, "approve": 12, "approve_twice": 1, "approve_something_else": 1, "undo": 2, "reject": 1, "cancel": 1,
    "edit": 2, "look_again": 4, "rule": 3, "change_members": 4,
}  # fmt: skip
REMEMBERED = 40  # actions that somebody looks at again, and withdraws
SIGN_IN = "/sign-in"
INVITATION = re.compile(r"/invitations/[^/\s]+/")


Form = tuple[str, dict[str, str]]


class Office:
    """One thread's agent and people.

    `found` counts the answers of the server, `errors` keeps its error pages.
    """

    def __init__(self, plant: Plant, name: int, *, calm: bool) -> None:
        self._plant = plant
        self._name = name
        self._calm = calm
        self._random = Random(f"{plant.setup.seed} office {name}")
        self._links = [list(links[name * LINKS : (name + 1) * LINKS]) for links in plant.links]
        self._people = [self._signed_in(links.pop()) or Person(plant.url) for links in self._links]
        self._pages: list[
            tuple[int, str, dict[str, Form]]
        ] = []  # pages of unknown mails, kept for a later ruling
        self._open: list[str] = []  # proposed, and perhaps not decided
        self._decided: list[str] = []
        self._proposals = 0
        self.found: Counter[str] = Counter()
        self.errors: list[str] = []
        self.rulings: list[Ruling] = []
        self.stop = threading.Event()

    def _signed_in(self, link: str) -> Person | None:
        """Return None if the server answers that its database is away, or that a restore ended it."""
        person, path = Person(self._plant.url), f"/sign-in/{link}/"
        page = person.get(path)
        if page.status < 500:
            if "sign-in" not in (forms := Forms(page.text).found):
                return None
            address, fields = forms["sign-in"]
            page = person.post(address or path, fields)
        if page.status >= 500:
            return None
        assert page.status == 302, f"{page.status}: {page.text}"
        return person

    def _signs_in_again(self, number: int, answer: Answer) -> bool:
        """Return True if the server had asked for a sign-in, and there was a link for it.

        A restore can bring back a database that does not know the session.
        """
        if not (_asks_to_sign_in(answer) and self._links[number]):
            return False
        again = self._signed_in(self._links[number].pop())
        self._people[number] = again or self._people[number]
        return True

    def run(self, proposals: int) -> None:
        """Work until so many actions are proposed and decided, or until `stop` is set."""
        while not self.stop.is_set() and (self._proposals < proposals or self._open):
            self.step(may_propose=self._proposals < proposals)
            if not self._calm:
                self.stop.wait(self._random.uniform(0, PAUSE_SECONDS))

    def step(self, *, may_propose: bool) -> None:
        (step,) = (
            ("approve" if self._open else "propose",)
            if self._calm
            else self._random.choices(list(STEPS), list(STEPS.values()))
        )
        if step == "propose" or (
            not self._open and step not in ("look_again", "rule", "cancel", "change_members")
        ):
            step = "propose" if may_propose else "approve"
        calls: dict[str, Callable[[], None]] = {
            "propose": self._propose,
            "undo": self._undo,
            "cancel": self._cancel,
            "edit": self._edit,
            "look_again": self._look_again,
            "rule": self._rule,
            "change_members": self._change_members,
            "reject": lambda: self._decide("reject"),
            "approve": lambda: self._decide("approve"),
            "approve_twice": lambda: self._decide("approve", times=2),
            "approve_something_else": lambda: self._decide("approve", digest="0" * 64),
        }
        try:
            calls[step]()
        except GONE:
            self.found[f"{step}: no answer"] += 1
            self.stop.wait(RETRY_SECONDS)

    def _propose(self) -> None:
        """Propose as a client should: with a key, and again with the same key until there is an
        answer.
        """
        self._proposals += 1
        number = f"{self._name}-{self._proposals}"
        mail = {
            "mailbox": self._random.choice(self._plant.setup.addresses),
            "to": [f"{CANARY}-to-{number}@elsewhere.example"],
            "bcc": [f"{CANARY}-hidden@elsewhere.example"] if self._random.random() < 0.3 else [],
            "subject": f"{CANARY} subject {number}",
            "body": f"{CANARY} body {number}\n.a line with a dot\n",
            "confirm": True,
        }
        while not self.stop.is_set():
            with suppress(*GONE):
                answer = self._call("/tools/send_email", mail, key=f"key-{number}")
                if answer.status == 202:
                    self._open.append(answer.json()["action"]["id"])
                    self.found["proposed"] += 1
                    return
                # A program that has just ended gets 401; the next one tries again.
                assert answer.status >= 500 or answer.status in (401, 429), answer.text
            self.stop.wait(RETRY_SECONDS)

    def _call(self, path: str, body: object, *, key: str = "") -> Answer:
        headers = {
            "Authorization": f"Bearer {self._plant.program.secret}",
            "Content-Type": "application/json",
        }
        headers |= {"Idempotency-Key": key} if key else {}
        return self._noted(
            request(
                f"{self._plant.url}/api/v1{path}",
                "POST",
                body=json.dumps(body).encode(),
                headers=headers,
            )
        )

    def _decide(self, verdict: str, *, times: int = 1, **changes: str) -> None:
        """Open the page as each of the people in turn, and send its form filled in."""
        action = self._random.choice(self._open)
        for number in self._random.sample(range(len(self._people)), len(self._people)):
            person = self._people[number]
            page = self._noted(person.get(f"/actions/{action}/"))
            if page.status >= 500:
                return
            form = Forms(page.text).found.get(verdict)
            if form is None and number:
                continue  # the second person is no approver now
            if form is None:
                break  # one approval was enough, or somebody else was faster
            for _ in range(times):
                answer = self._noted(person.post(form[0], form[1] | changes))
                self.found[f"{verdict}: {answer.status}"] += 1
                if self._signs_in_again(number, answer):
                    return  # and opens the page again, another time
        else:
            if (
                self._noted(self._people[0].get(f"/actions/{action}/")).text.find(
                    'data-action="approve"'
                )
                >= 0
            ):
                return  # still open
        if action in self._open:
            self._open.remove(action)
            self._decided.append(action)

    def _undo(self) -> None:
        """Undo the newest approval if the server still allows it, and queue it for another
        decision.
        """
        if not self._decided:
            return
        action = self._decided[-1]
        page = self._noted(self._people[0].get(f"/actions/{action}/"))
        form = Forms(page.text).found.get("undo")
        if form is not None:
            answer = self._noted(self._people[0].post(form[0], form[1]))
            self.found[f"undo: {answer.status}"] += 1
            self._decided.remove(action)
            self._open.append(action)

    def _cancel(self) -> None:
        """Cancel an action, also an unknown or returned one: mailhub says whether it can still be
        withdrawn.
        """
        recent = self._decided[-REMEMBERED:]
        pool = [*self._open, *self._random.sample(recent, min(len(recent), 6))]
        if not pool:
            return
        action = self._random.choice(pool)
        answer = self._call(f"/actions/{UUID(action)}/cancel", {})
        self.found[f"cancel: {answer.status}"] += 1
        if answer.status < 300 and action in self._open:
            self._open.remove(action)

    def _edit(self) -> None:
        """Change the text of a waiting action; its approvals so far are void."""
        action = self._random.choice(self._open)
        person = self._random.choice(self._people)
        form = Forms(self._noted(person.get(f"/actions/{action}/")).text).found.get("edit")
        if form is not None:
            body = f"{CANARY} body, edited for the {self._random.randrange(10**6)}th time\n"
            answer = self._noted(person.post(form[0], form[1] | {"body": body}))
            self.found[f"edit: {answer.status}"] += 1

    def _look_again(self) -> None:
        """Open a decided action: if it waits again, decide it again; if it is unknown, keep its
        page.
        """
        if not self._decided:
            return
        action = self._random.choice(self._decided[-REMEMBERED:])
        number = self._random.randrange(len(self._people))
        forms = Forms(self._noted(self._people[number].get(f"/actions/{action}/")).text).found
        if "approve" in forms:
            self._decided.remove(action)
            self._open.append(action)
            self.found["look_again: it waits"] += 1
        rulings = {name: form for name, form in forms.items() if name.startswith("resolve-")}
        if rulings:
            self._pages.append((number, action, rulings))
            self.found["look_again: it is unknown"] += 1

    def _rule(self) -> None:
        """Rule from a page that was opened just now or long ago; half of the pages are used
        twice.
        """
        if not self._pages:
            return
        page = self._random.choice(self._pages)
        if self._random.random() < 0.5:
            self._pages.remove(page)
        number, action, forms = page
        address, fields = self._random.choice(list(forms.values()))
        began, taken = datetime.now(UTC), None
        try:
            answer = self._noted(self._people[number].post(address, fields))
            if answer.status < 500:
                taken = answer.status == 302 and not _asks_to_sign_in(answer)
            self.found[f"rule {fields['ruling']}: {answer.status}"] += 1
        finally:
            self.rulings.append(
                Ruling(
                    action=action,
                    fence=int(fields["fence"]),
                    ruling=fields["ruling"],
                    began=began,
                    ended=datetime.now(UTC),
                    taken=taken,
                )
            )

    def _change_members(self) -> None:
        """Take the approver role from the other person as the manager, and mostly give it back at
        once.
        """
        mailbox = self._random.choice(self._plant.mailboxes)
        where = f"/mailboxes/{mailbox}/members/{self._plant.second_person}/"
        forms = Forms(self._noted(self._people[0].get(f"/mailboxes/{mailbox}/")).text)
        if f"{where}role/" not in forms.at:
            self._invite(mailbox, forms)
            return
        removes = self._random.random() < 0.4
        if removes:
            self._send_to(f"{where}remove/", forms)
        else:
            self._send_to(
                f"{where}role/", forms, role=self._random.choice(("viewer", "approver", "proposer"))
            )
        self.stop.wait(self._random.uniform(0, PAUSE_SECONDS))
        if self._random.random() < 0.7:
            if removes:
                self._invite(
                    mailbox, Forms(self._noted(self._people[0].get(f"/mailboxes/{mailbox}/")).text)
                )
            else:
                self._send_to(f"{where}role/", forms, role="approver")

    def _invite(self, mailbox: str, forms: Forms) -> None:
        """Invite the other person, who opens the link in the mail and joins."""
        if "invite" not in forms.found:
            return
        known = len(self._plant.post.ledger)
        fields = {"email": self._plant.second_address, "role": "approver"}
        self._send_to(f"/mailboxes/{mailbox}/invite/", forms, **fields)
        for letter in self._plant.post.ledger[known:]:
            for path in INVITATION.findall(letter.content.decode()):
                form = Forms(self._noted(self._people[1].get(path)).text).found.get("join")
                if form is not None:
                    answer = self._noted(self._people[1].post(path, form[1]))
                    self.found[f"join: {answer.status}"] += 1

    def _send_to(self, address: str, forms: Forms, **fields: str) -> None:
        answer = self._noted(self._people[0].post(address, forms.at.get(address, {}) | fields))
        self.found[f"{address.split('/')[-2]} member: {answer.status}"] += 1

    def _noted(self, answer: Answer) -> Answer:
        if answer.status >= 500:
            self.errors.append(answer.text)
        return answer

    def reject_all(self, actions: list[str]) -> None:
        """Reject at the end every action that nobody has decided."""
        for action in actions:
            until(lambda action=action: self._refused(action), seconds=REFUSAL_SECONDS)  # type: ignore[misc]

    def _refused(self, action: str) -> bool:
        """Return True if it is decided now; a late answer may have closed it meanwhile."""
        try:
            page = self._people[0].get(f"/actions/{action}/")
            if page.status != 200:
                self._signs_in_again(0, page)
                return False
            form = Forms(page.text).found.get("reject")
            return (
                form is None or self._people[0].post(form[0], form[1] | {"note": ""}).status < 500
            )
        except GONE:
            return False


def _asks_to_sign_in(answer: Answer) -> bool:
    return answer.status == 302 and answer.headers.get("Location", "").startswith(SIGN_IN)
