"""Another session takes the place of the one there is, on the same screen."""

from typing import TYPE_CHECKING

from agentcli.types.errors import Exit

if TYPE_CHECKING:
    from agentcli.app.session import Session
    from agentcli.ui.repl.story import LiveTranscript


async def switch_session(
    session: "Session", *, previous: "Session", transcript: "LiveTranscript"
) -> None:
    """`session` is open already: where it cannot be had, nothing may have been ended.

    The mode is the person's, and stays."""
    transcript.load_session(session.facts)
    if session.mode != previous.mode:
        session.set_mode(previous.mode)
    await previous.close(Exit.DONE)
