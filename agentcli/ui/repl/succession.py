"""Another session takes the place of the one there is, on the same screen."""

from typing import TYPE_CHECKING

from agentcli.types.errors import Exit

if TYPE_CHECKING:
    from agentcli.app.session import Session
    from agentcli.ui.repl.story import Story


async def succeed(session: "Session", *, before: "Session", story: "Story") -> None:
    """`session` is open already: where it cannot be had, nothing may have been ended.

    The mode is the person's, and stays."""
    story.recall(session.facts)
    if session.mode != before.mode:
        session.set_mode(before.mode)
    await before.close(Exit.DONE)
