"""A message to the turn that is running: it brings the files that it mentions, as a prompt does."""

import asyncio
from typing import TYPE_CHECKING

from agentcli.ui.repl.mentions import attach

if TYPE_CHECKING:
    from agentcli.app.session import Session
    from agentcli.app.steering import SteeringMessage
    from agentcli.ui.repl.repl import Repl
    from agentcli.ui.repl.story import LiveTranscript


def send_steering(repl: "Repl", text: str) -> None:
    """It waits from now on: a turn that ends meanwhile gives it back, to be the next prompt."""
    session = repl.session
    steered = session.steering.add(text)
    repl.actions.run_task(_attach_steering(steered, session, repl.renderer.transcript))


async def _attach_steering(
    steered: "SteeringMessage", session: "Session", transcript: "LiveTranscript"
) -> None:
    attached = await asyncio.to_thread(attach, steered.text, session.settings.workspace)
    transcript.notes[steered.text] = attached.notes
    session.add_attachments(steered, attached.parts)
