"""All providers of a run as one: each mailbox is at the provider of its kind, and there is one
ledger.
"""

from collections import Counter
from contextlib import ExitStack
from typing import Any, Self

from tests.faults.apis import Gmail, Graph
from tests.faults.plan import Plan, Setup
from tests.faults.provider import Dice, Ledger, Provider
from tests.faults.smtp import SmtpAndImap


class Providers:
    """The providers that the mailboxes of a setup need.

    Every second mailbox at the SMTP server has its mail kept in Sent.
    """

    def __init__(self, setup: Setup, plan: Plan) -> None:
        self.ledger = Ledger()
        self._by_kind: dict[str, Provider] = {}
        kinds = set(setup.kinds)
        trouble: dict[str, Any] = {
            "seed": setup.seed,
            "rate": plan.fault_rate,
            "sending": plan.api_faults,
        }
        if "imap" in kinds:
            own = [address for address in setup.addresses if setup.kind_of(address) == "imap"]
            dice = Dice(setup.seed, plan.faults, rate=plan.fault_rate)
            self._by_kind["imap"] = SmtpAndImap(self.ledger, dice, keeping=frozenset(own[::2]))
        if kinds & {"graph", "graph at once"}:
            graph = Graph(self.ledger, **trouble)
            self._by_kind |= {"graph": graph, "graph at once": graph}
        if "gmail" in kinds:
            self._by_kind["gmail"] = Gmail(self.ledger, **trouble)
        self._all = list({id(each): each for each in self._by_kind.values()}.values())
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for each in self._all:
                stack.enter_context(each)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)

    @property
    def faults(self) -> Counter[str]:
        return sum((each.faults for each in self._all), Counter())

    def environment(self) -> dict[str, object]:
        return {name: value for each in self._all for name, value in each.environment().items()}

    def access(self, address: str, kind: str) -> dict[str, Any]:
        return self._by_kind[kind].access(address, kind)

    def connection(
        self, address: str, kind: str, *, change: str, number: int
    ) -> tuple[list[str], str]:
        provider = self._by_kind[kind]
        return provider.connection(address, kind, change=change, number=number)

    def end_sign_in(self, address: str) -> None:
        self._by_kind["gmail"].end_sign_in(address)

    def calls(self) -> Counter[str]:
        return sum((each.calls() for each in self._all), Counter())

    def heal(self) -> None:
        for each in self._all:
            each.heal()
