"""Facts of older formats, in today's words. The only place that knows the old ones.

The hash of a line is over its bytes as they were written, so a log is never rewritten: every
reader of its facts takes them through here.
"""

from collections.abc import Mapping
from typing import Any

from agentcli.system.lazy import compile_later
from agentcli.types.words import pluralize

READABLE_VERSIONS = (1, 2)
"""The changes from one format to the next are listed in `docs/reference/log.md`."""
_OLD_FIELDS = {"confinement": "grants"}
_SPANS = {"once": "once", "for this session": "session", "always": "always"}
"""How long an approval lasts, by the last words of its reason, where no field says it."""
_MODES = ("auto", "auto-edit", "ask", "plan")
_SAID = ("the user denied it, and said: ", "the person said no, and: ")
"""The words before what the user wants instead, where no field says it."""


_PLANNING, _STEPS_DONE = "Plan mode: ", "Steps of the plan that are done: "
_LISTS = {"Skills": "skill", "Roles": "role"}
_ENDED_IN_BACKGROUND = compile_later(r"background pid (\d+) ended after \S+ s: exit code (\d+)")
_LOADED_FILE = compile_later(
    r"(?:Instructions|Notes) of .+, from (.+); (?:follow them|written for)"
)


def upgrade_fact(fact: Any) -> Any:
    """Return a fact, as read from JSON, in the words of the format that is written today.

    What is not a fact of an older format is returned unchanged.
    """
    match fact:
        case {"type": "told"}:
            note = _replace({**fact, "type": "context_note"}, "why", {"person": "user"})
            return _upgrade_note(note)
        case {"type": "context_note"}:
            return _upgrade_note(fact)
        case {"type": "tokens_spent"}:
            return _replace(fact, "why", {"opinion": "evaluation"})
        case {"type": "call_judged", "verdict": {} as verdict}:
            verdict = {_OLD_FIELDS.get(name, name): value for name, value in verdict.items()}
            verdict = _replace(verdict, "by", {"person": "user"})
            return {**fact, "verdict": _add_mode(_add_said(_add_span(verdict)))}
        case {"type": "turn_ended" | "session_ended"}:
            return _replace(fact, "ending", {"reader_left": "output_closed"})
        case _:
            return fact


def _upgrade_note(note: Any) -> Any:
    """Return a note with its own reason and with its data, where only its text says them."""
    match note:
        case {"why": "plan_mode", "text": str(text)} if text.startswith(_STEPS_DONE):
            return {**note, "why": "plan_steps"}
        case {"why": "plan_mode", "text": str(text)} if not text.startswith(_PLANNING):
            return {**note, "why": "plan_mode_over"}
        case {"why": "instructions", "text": str(text)} if "loaded" not in note:
            return {**note, "loaded": _find_loaded(text)}
        case {"why": "background", "text": str(text)} if "pid" not in note:
            found = _ENDED_IN_BACKGROUND.search(text)
            return {**note, "pid": int(found[1]), "exit_code": int(found[2])} if found else note
        case _:
            return note


def _find_loaded(text: str) -> str:
    first, *more = text.strip().split("\n")
    count = len([line for line in more if line.strip()])
    if found := _LOADED_FILE.match(first):
        return f"{found[1]} ({pluralize(count, 'line')})"
    kinds = (kind for word, kind in _LISTS.items() if first.startswith(word))
    return next((pluralize(count, kind) for kind in kinds), "")


def _add_span(verdict: Any) -> Any:
    """Return the verdict with `lasts`, if it is the user's approval and only its reason says it."""
    match verdict:
        case {"by": "user", "decision": "allow", "reason": str(reason)} if "lasts" not in verdict:
            spans = (span for words, span in _SPANS.items() if reason.endswith(words))
            return {**verdict, "lasts": next(spans, None)}
        case _:
            return verdict


def _add_said(verdict: Any) -> Any:
    """Return the verdict with `instead`, if the user denied a call and only its reason says it."""
    match verdict:
        case {"by": "user", "decision": "deny", "reason": str(reason)} if "instead" not in verdict:
            said = (reason.removeprefix(words) for words in _SAID if reason.startswith(words))
            return {**verdict, "instead": next(said, "")}
        case _:
            return verdict


def _add_mode(verdict: Any) -> Any:
    """Return the verdict with `mode`, if only its reason says which one allowed the call."""
    match verdict:
        case {"by": "mode", "decision": "allow", "reason": str(reason)} if "mode" not in verdict:
            mode, allows, _ = reason.partition(" mode allows it")
            return {**verdict, "mode": mode} if allows and mode in _MODES else verdict
        case _:
            return verdict


def _replace(within: Any, name: str, new_words: Mapping[str, str]) -> Any:
    """Return the object with another word in one of its fields, if it holds an old one."""
    value = within.get(name)
    if not isinstance(value, str) or value not in new_words:
        return within
    return {**within, name: new_words[value]}
