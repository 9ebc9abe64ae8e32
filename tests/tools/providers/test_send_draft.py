"""The shared order of a send, with a vendor that records its steps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from approvals.core.types import Proof
from tools.providers.base import Handover, Receipt
from tools.providers.errors import OutcomeUnknown, Refused, Unavailable
from tools.providers.notes import DraftNotes
from tools.providers.send_draft import DraftGone, send_draft

MARKED = DraftNotes(marker="<1@example>")
MADE = DraftNotes(marker="<1@example>", draft="d1")
COMPARED = MADE.with_version("v1", "f1")
Fails = Mapping[str, Exception]


@dataclass
class Vendor:
    """A vendor with one draft. `fails` has the error of a step."""

    fails: Fails = field(default_factory=dict)
    earlier: DraftNotes | None = None
    sent_by_another: bool = False
    is_gone: bool = False
    steps: list[str] = field(default_factory=list)
    marker: str = MADE.marker

    def handover(self, prepared: DraftNotes | None = None) -> Handover:
        return Handover(
            wire_started=lambda: self.steps.append("wire started"),
            prepared=prepared or DraftNotes(),
            keep=lambda notes: self.steps.append(f"keep {' '.join(notes.as_json())}"),
        )

    def take_up(self, handover: Handover) -> DraftNotes | None:
        self._take("take up")
        return self.earlier

    def create(self) -> DraftNotes:
        self._take("create")
        return MADE

    def fill(self, notes: DraftNotes) -> None:
        self._take("fill")

    def read_back(self, notes: DraftNotes) -> str:
        self._take("read back")
        return "v1"

    def compare(self, notes: DraftNotes, read: str) -> DraftNotes:
        self._take("compare")
        return notes.with_version(read, "f1")

    def send(self, notes: DraftNotes, wire_started: Callable[[], None]) -> str:
        wire_started()
        self._take("send")
        return "reference"

    def is_still_there(self, notes: DraftNotes) -> bool:
        self._take("look")
        return not self.is_gone

    def classify(self, gone: DraftGone) -> Receipt:
        self.steps.append("classify")
        if not self.sent_by_another:
            raise OutcomeUnknown("draft_gone")
        return Receipt(at=datetime.now(UTC), changed=("subject",))

    def _take(self, step: str) -> None:
        self.steps.append(step)
        if step in self.fails:
            raise self.fails[step]


WHOLE_ORDER = [
    "keep marker",
    "create",
    "keep marker draft",
    "fill",
    "read back",
    "compare",
    "keep marker draft version folder",
    "wire started",
    "send",
]


def test_first_attempt_keeps_each_step_before_the_next() -> None:
    vendor = Vendor()
    receipt = send_draft(vendor, vendor.handover())
    assert vendor.steps == WHOLE_ORDER
    assert receipt.reference == "reference"


def test_draft_that_was_compared_is_not_created_again() -> None:
    vendor = Vendor(earlier=COMPARED)
    send_draft(vendor, vendor.handover(COMPARED))
    assert vendor.steps == ["take up", "read back", "compare", "wire started", "send"]


def test_new_draft_follows_one_that_cannot_be_used() -> None:
    vendor = Vendor()
    send_draft(vendor, vendor.handover(MARKED))
    assert vendor.steps == ["take up", *WHOLE_ORDER]


@pytest.mark.parametrize("step", ["create", "fill", "read back", "compare"])
@pytest.mark.parametrize("error", [Refused("refused"), Unavailable("unreachable")])
def test_failed_preparation_never_starts_the_wire(step: str, error: Exception) -> None:
    vendor = Vendor(fails={step: error})
    with pytest.raises(type(error)):
        send_draft(vendor, vendor.handover())
    assert vendor.steps == WHOLE_ORDER[: WHOLE_ORDER.index(step) + 1]


@pytest.mark.parametrize("step", ["take up", "fill", "read back", "compare"])
def test_draft_that_went_away_is_not_created_again(step: str) -> None:
    prepared = COMPARED if step == "take up" else None
    vendor = Vendor(fails={step: DraftGone()})
    with pytest.raises(OutcomeUnknown):
        send_draft(vendor, vendor.handover(prepared))
    assert vendor.steps[-3:] == [step, "wire started", "classify"]


def test_draft_that_goes_during_the_send_starts_the_wire_once() -> None:
    vendor = Vendor(fails={"send": DraftGone()}, sent_by_another=True)
    receipt = send_draft(vendor, vendor.handover())
    assert vendor.steps == [*WHOLE_ORDER, "classify"]
    assert receipt.changed == ("subject",)


def test_lost_answer_to_the_send_is_passed_on() -> None:
    vendor = Vendor(fails={"send": OutcomeUnknown("no_answer")})
    with pytest.raises(OutcomeUnknown):
        send_draft(vendor, vendor.handover())
    assert vendor.steps == WHOLE_ORDER


@pytest.mark.parametrize("refusal", [Refused, Unavailable])
def test_refused_send_is_proven_by_the_draft_that_is_there(
    refusal: type[Refused | Unavailable],
) -> None:
    vendor = Vendor(fails={"send": refusal("no")})
    with pytest.raises(refusal) as refused:
        send_draft(vendor, vendor.handover())
    assert vendor.steps == [*WHOLE_ORDER, "look"]
    assert refused.value.proof == Proof(kind="unsent", object="d1")


def test_refused_send_of_a_draft_that_is_gone_proves_nothing() -> None:
    vendor = Vendor(fails={"send": Refused("refused")}, is_gone=True)
    with pytest.raises(OutcomeUnknown):
        send_draft(vendor, vendor.handover())
    assert vendor.steps == [*WHOLE_ORDER, "look", "classify"]


def test_refused_send_has_no_proof_if_nobody_could_look() -> None:
    vendor = Vendor(fails={"send": Refused("refused"), "look": Unavailable("unreachable")})
    with pytest.raises(Refused) as refused:
        send_draft(vendor, vendor.handover())
    assert refused.value.proof is None
