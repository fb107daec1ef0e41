"""Facts about what the user does beside the turns, as adding a directory, or going back."""

from typing import Literal

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryAdded:
    """The user added a directory to the workspace: tools and commands reach it from here on."""

    path: str
    writable: bool
    type: Literal["directory_added"] = "directory_added"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffortChanged:
    """The model thinks more, or less, from here on."""

    effort: str | None
    """None for the model's own default."""
    type: Literal["effort_changed"] = "effort_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AsideAnswered:
    """The user asked something about the conversation that is no part of it."""

    question: str
    answer: str
    usage: Usage = Usage()
    cost_usd: float | None = None
    """None if the price is not known."""
    type: Literal["aside_answered"] = "aside_answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewound:
    """The conversation goes on from before a turn, or (`redo`) from before the rewind `of`."""

    id: str
    action: Literal["rewind", "redo"]
    turn: int
    """Turns are counted from 1 in the order of their `turn_started`."""
    undo: str = ""
    """The id of the undo that restored the files with it; empty if they stayed as they were."""
    of: str = ""
    type: Literal["rewound"] = "rewound"
