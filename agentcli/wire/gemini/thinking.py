"""What both Gemini protocols share about thinking: its levels, and signatures that are missing.

Models since Gemini 3 sign their thoughts, and refuse a history whose calls carry no signature.
"""

import re

from agentcli.wire.dialect import Model

UNSIGNED = "skip_thought_signature_validator"
"""The documented signature for calls that the model asked did not make: another provider's, or
another model's. Without it they would have to become prose, which models then imitate."""

_OLD = re.compile(r"gemini-[12](?!\d)")

_LEVELS = {
    # Not every model takes "minimal", and none can be told not to think at all.
    "none": "low",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


def is_signing(model: Model) -> bool:
    """Gemini 3 and later, which is what a name without a number stands for, too."""
    return _OLD.search(model.name) is None


def thinking_level(effort: str | None) -> str | None:
    """A word we do not know is the person's own: the service judges it."""
    return effort and _LEVELS.get(effort, effort)
