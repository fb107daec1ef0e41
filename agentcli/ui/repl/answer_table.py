"""The answers to a question, one row each: keys, screen, line mode and log follow the table.

To add an answer: a row here. What a key does beyond giving a verdict is in `answers`. How long an
answer lasts is `Verdict.lasts`; `LASTING` beside it says who keeps a lasting one. An answer with
`ends_turn` stops the turn, too, on the screen and in line mode. One with `asks_for` opens a line:
what the user types there is told to the model, whether the call runs or not.
"""

from dataclasses import replace
from typing import Literal

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.verdicts import LASTING, SPAN_WORDS, ApprovalSpan, Decision, Mode
from agentcli.ui.render.wording import USER_DENIED, USER_DENIED_AND_SAID

Letter = Literal["y", "s", "a", "n", "e", "v", "m", "q", "1", "2", "3", "4"]
DIGITS: tuple[Letter, ...] = ("1", "2", "3", "4")
"""The keys of the choices of a question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerChoice:
    """A possible answer: its key, its words on the screen, and the verdict that it gives."""

    key: Letter
    label: str
    short: str
    """The label where there is little space."""
    decision: Decision | None = None
    """None if it gives no verdict by itself, such as viewing."""
    reason: str = ""
    """The reason in the verdict, which is stored in the log. If it denies, the model reads it."""
    lasts: ApprovalSpan | None = None
    """How long the answer lasts, a yes or a no; None if it is for this call alone."""
    typed: tuple[str, ...] = ()
    """The words that give this answer in line mode. Empty if it cannot be given there."""
    takes_enter: bool = False
    """True if the letter only selects the answer, and Enter gives it."""
    asks_for: str = ""
    """The prompt of the line on which the user types the rest. Empty if nothing is to be typed."""
    opens: Literal["view", "editor"] | None = None
    """What it opens first: all of the call, or an editor to change it. Such answers share a row."""
    mode: Mode | None = None
    """The mode in which an accepted plan is carried out."""
    ends_turn: bool = False
    """True if the turn is stopped once the answer is recorded."""

    @property
    def agrees(self) -> bool:
        return self.decision in ("allow", "modify")

    @property
    def is_lasting(self) -> bool:
        return self.lasts in LASTING

    @property
    def rule_decision(self) -> Literal["allow", "deny"]:
        """The decision of the rules that a lasting answer makes."""
        return "deny" if self.decision == "deny" else "allow"


INSTEAD_ANSWER = AnswerChoice(
    key="e",
    label="no, tell the agent what to do instead",
    short="no, instead",
    decision="deny",
    reason=USER_DENIED_AND_SAID,
    asks_for="Tell the agent what to do instead: ",
)
"""In line mode, it is every line that is none of the words of the other answers."""
CALL_ANSWERS = (
    AnswerChoice(
        key="y",
        label="yes, once",
        short="yes",
        decision="allow",
        reason="the user approved it once",
        lasts="once",
        typed=("y", "yes"),
    ),
    AnswerChoice(
        key="s",
        label="yes, and don't ask again this session",
        short="yes, this session",
        decision="allow",
        reason="the user approved it for this session",
        lasts="session",
        typed=("s",),
    ),
    AnswerChoice(
        key="a",
        label="always, in all projects",
        short="yes, always",
        decision="allow",
        reason="the user approved it always",
        lasts="always",
        typed=("a",),
        takes_enter=True,
    ),
    AnswerChoice(
        key="n",
        label="no, and continue",
        short="no",
        decision="deny",
        reason=USER_DENIED,
        typed=("n", "no"),
    ),
    INSTEAD_ANSWER,
    AnswerChoice(key="v", label="view all", short="view", opens="view"),
    AnswerChoice(
        key="m",
        label="edit it first",
        short="edit",
        decision="modify",
        reason="the user changed it before it ran",
        opens="editor",
    ),
)
ANSWERS_BY_KEY = {choice.key: choice for choice in CALL_ANSWERS}
STOP_ANSWER = AnswerChoice(
    key="q",
    label="no, and stop the turn",
    short="stop the turn",
    decision="deny",
    reason=USER_DENIED,
    typed=("q",),
    ends_turn=True,
)
"""What Esc and Ctrl-C answer on the screen, which does not show it, and `q` in line mode."""
PLAN_ANSWERS = (
    AnswerChoice(
        key="y",
        label="yes, follow it and ask before each change",
        short="ask",
        decision="allow",
        mode="ask",
    ),
    AnswerChoice(
        key="a",
        label="yes, follow it and edit files without asking",
        short="auto-edit",
        decision="allow",
        mode="auto-edit",
        takes_enter=True,
    ),
    AnswerChoice(key="n", label="no, keep planning", short="no", decision="deny"),
    replace(INSTEAD_ANSWER, label="no, tell the agent what to change", short="change"),
    AnswerChoice(key="m", label="edit it first, in $EDITOR", short="edit", opens="editor"),
)


# The answers that can be typed in line mode


_TYPED_ANSWERS = tuple(choice for choice in (*CALL_ANSWERS, STOP_ANSWER) if choice.typed)
CHOICE_BY_WORD = {word: choice for choice in _TYPED_ANSWERS for word in choice.typed}
APPROVAL_PROMPT = ", ".join(
    [
        *(
            f"{it.key} {SPAN_WORDS[it.lasts] if it.lasts and it.agrees else it.short}"
            for it in _TYPED_ANSWERS
        ),
        "or type what to do instead",
    ]
)
