"""The events of hooks: their names, and what hooks of each can do.

When an event happens is decided in `session/hooks`.
"""

from typing import Literal, get_args

HookEvent = Literal[
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "SubagentStop",
    "PreCompact",
    "Notification",
    "FileChanged",
]
EVENTS: dict[str, HookEvent] = {event: event for event in get_args(HookEvent)}
OTHER_EVENTS = frozenset(
    (
        *("SubagentStart", "PostCompact", "Setup", "TeammateIdle", "TaskCompleted", "TaskCreated"),
        *("ConfigChange", "CwdChanged", "WorktreeCreate", "WorktreeRemove", "StopFailure"),
        *("InstructionsLoaded", "Elicitation", "ElicitationResult", "PermissionDenied"),
    )
)
"""Events of other agents that have no meaning here. None of them checks a call."""

ASKING: tuple[HookEvent, ...] = ("PreToolUse", "PermissionRequest")
"""Events before a call. A hook that cannot run makes the user be asked, so no check is lost."""
AFTER_CALLS: tuple[HookEvent, ...] = ("PostToolUse", "PostToolUseFailure")
ABOUT_TOOLS: tuple[HookEvent, ...] = (*ASKING, *AFTER_CALLS)
STOPPING: tuple[HookEvent, ...] = ("Stop", "SubagentStop")
DECIDING: tuple[HookEvent, ...] = (*ASKING, "PostToolUse", "UserPromptSubmit", *STOPPING)
"""Events whose hooks are checks. If such a hook does not run, the check is lost."""
CONTEXT_BY_PRINTING: tuple[HookEvent, ...] = ("UserPromptSubmit", "SessionStart")
"""Events whose hooks may print plain text for the model."""
WITH_MATCHER: tuple[HookEvent, ...] = (
    *ABOUT_TOOLS,
    *("SessionStart", "SessionEnd", "SubagentStop", "PreCompact", "Notification", "FileChanged"),
)
"""Events with something to match: a tool, a role, a file, or how something began or ended."""
SUBJECTS = {
    "SessionStart": ("startup", "resume"),
    "SessionEnd": ("exit", "other"),
    "PreCompact": ("auto", "manual"),
    "Notification": ("permission_prompt",),
}
"""All that a matcher of these events can match. Of the others it is known only when they happen."""
