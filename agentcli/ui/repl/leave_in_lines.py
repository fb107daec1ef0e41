"""The question about a call where there are only lines: typed answers, and nothing is redrawn."""

from collections.abc import Awaitable, Callable, Sequence

from agentcli.types.verdicts import Verdict
from agentcli.ui.lines import SAID_INSTEAD, SAID_NO
from agentcli.ui.render.escape import escape
from agentcli.ui.repl.approval import Offer

ANSWERS = "y once, s this session, a always, n no, or write what to do instead"


async def ask_for_leave(
    offer: Offer, *, read: Callable[[], Awaitable[str | None]], write: Callable[[str], None]
) -> tuple[Verdict, Sequence[str]]:
    """The verdict, and the rules to be stored with it."""
    write(f"session: {escape(offer.session or offer.why_not('s'))}\n")
    write(f"always: {escape(', '.join(offer.rules) or offer.why_not('a'))}\n")
    while True:
        write(f"{ANSWERS}: ")
        line = await read()
        if line is None:
            return _no("the person has left"), ()
        if verdict := _verdict(line.strip(), offer):
            return verdict, offer.rules if line.strip().lower() == "a" else ()


def _verdict(said: str, offer: Offer) -> Verdict | None:
    """None: it is no answer."""
    rule = ", ".join(offer.rules) or offer.session
    match said.lower():
        case "y" | "yes":
            return _yes("the person agreed once")
        case "s" if offer.session:
            return _yes("the person agreed for this session", rule)
        case "a" if offer.rules:
            return _yes("the person agreed always", rule)
        case "n" | "no":
            return _no(SAID_NO)
        case "" | "s" | "a":
            return None
        case _:
            return _no(f"{SAID_INSTEAD}{said}")


def _yes(reason: str, rule: str | None = None) -> Verdict:
    return Verdict(decision="allow", by="person", reason=reason, rule=rule)


def _no(reason: str) -> Verdict:
    return Verdict(decision="deny", by="person", reason=reason)
