"""The question about a call where there are only lines: typed answers, and nothing is redrawn."""

from collections.abc import Awaitable, Callable, Sequence

from agentcli.types.verdicts import Verdict
from agentcli.ui.lines import USER_SAID_INSTEAD, USER_SAID_NO
from agentcli.ui.render.escape import escape
from agentcli.ui.repl.approval import RuleOffer

APPROVAL_ANSWERS = "y once, s this session, a always, n no, or write what to do instead"


async def ask_for_approval(
    offer: RuleOffer, *, read: Callable[[], Awaitable[str | None]], write: Callable[[str], None]
) -> tuple[Verdict, Sequence[str]]:
    """The verdict, and the rules to be stored with it."""
    write(f"session: {escape(offer.session or offer.find_obstacle('s'))}\n")
    write(f"always: {escape(', '.join(offer.rules) or offer.find_obstacle('a'))}\n")
    while True:
        write(f"{APPROVAL_ANSWERS}: ")
        line = await read()
        if line is None:
            return _deny("the person has left"), ()
        if verdict := _parse_verdict(line.strip(), offer):
            return verdict, offer.rules if line.strip().lower() == "a" else ()


def _parse_verdict(line: str, offer: RuleOffer) -> Verdict | None:
    """None: it is no answer."""
    rule = ", ".join(offer.rules) or offer.session
    match line.lower():
        case "y" | "yes":
            return _allow("the person agreed once")
        case "s" if offer.session:
            return _allow("the person agreed for this session", rule)
        case "a" if offer.rules:
            return _allow("the person agreed always", rule)
        case "n" | "no":
            return _deny(USER_SAID_NO)
        case "" | "s" | "a":
            return None
        case _:
            return _deny(f"{USER_SAID_INSTEAD}{line}")


def _allow(reason: str, rule: str | None = None) -> Verdict:
    return Verdict(decision="allow", by="person", reason=reason, rule=rule)


def _deny(reason: str) -> Verdict:
    return Verdict(decision="deny", by="person", reason=reason)
