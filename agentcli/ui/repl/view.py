"""What the live region shows, put together anew at each drawing from how things stand."""

import asyncio

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.styles import BaseStyle, Style

from agentcli.ui.repl.approval import Approvals
from agentcli.ui.repl.composer import Composer
from agentcli.ui.repl.engine import Engine, Opening
from agentcli.ui.repl.queue import waiting_rows
from agentcli.ui.repl.screen import LOW_ROWS
from agentcli.ui.repl.status import Status, cut
from agentcli.ui.repl.terminal import Terminal
from agentcli.ui.repl.toolbar import HINT_COLUMNS, HINTS, Figures, fields, fitted
from agentcli.ui.repl.turns import Turns

NOTICE_S = 1.5
TAIL_ROWS_MIN = 3
SHELL_ROWS = 3
FIRST_STYLES = {"dim": "dim", "mode": "bold", "atom": "bold", "prompt": "bold"}
"""Until the theme is known."""
DEPTHS = {
    "truecolor": ColorDepth.TRUE_COLOR,
    "256": ColorDepth.DEPTH_8_BIT,
    "16": ColorDepth.DEPTH_4_BIT,
    "none": ColorDepth.DEPTH_1_BIT,
}


class View:
    def __init__(
        self,
        *,
        engine: Engine,
        turns: Turns,
        approvals: Approvals,
        composer: Composer,
        status: Status,
        terminal: Terminal,
        opening: Opening,
    ) -> None:
        self._engine = engine
        self._turns = turns
        self._approvals = approvals
        self._composer = composer
        self._status = status
        self._terminal = terminal
        self._branch = opening.branch
        self._first_model = opening.model
        self._notice = ""
        self.style: BaseStyle = Style.from_dict(FIRST_STYLES)

    def depth(self) -> ColorDepth:
        stage = self._engine.stage
        return DEPTHS[stage.depth] if stage else ColorDepth.DEPTH_1_BIT

    def dress(self) -> None:
        """After the theme is known, or another was chosen."""
        if self._engine.stage is not None:
            self.style = Style.from_dict(self._engine.stage.live_styles())
        self._terminal.redraw()

    def notice(self, text: str, *, seconds: float = NOTICE_S) -> None:
        """In place of the toolbar, for a moment, or until something is sent."""
        self._notice = text
        self._terminal.redraw()

        def forget() -> None:
            if self._notice == text:
                self._notice = ""
                self._terminal.redraw()

        asyncio.get_running_loop().call_later(seconds, forget)

    def forget_notice(self) -> None:
        self._notice = ""

    def live(self, rows: int) -> list[str]:
        """The text goes on below what was committed; an empty row sets apart what is not text."""
        below = self._below(max(1, rows - 1))
        room = rows - len(below)
        if room < 1 or self._engine.stage is None or self._approvals.is_open:
            return ["", *below] if room > 0 else below
        tail = self._engine.stage.story.tail(min(room - 1, self._tail_rows()))
        return [*tail, "", *below]

    def toolbar(self) -> StyleAndTextTuples:
        width = self._terminal.size.columns - 2
        if self._notice:
            return [("class:dim", cut(self._notice, width))]
        wants_hints = width >= HINT_COLUMNS and self._composer.is_empty
        shown = fitted(
            fields(self._figures()),
            width=width,
            dot=" · ",
            hints=HINTS if wants_hints else "",
        )
        return [(f"class:{style}", text) for style, text in shown]

    def _below(self, rows: int) -> list[str]:
        stage, width = self._engine.stage, self._terminal.size.columns - 1
        status = self._status_row(width)
        if stage is None:
            return status
        asked = self._approvals.asked
        if asked is not None and asked.opened:
            return stage.panel(asked, rows=rows, takes_keys=self._approvals.takes_keys)
        queue = [stage.ink(cut(row, width), "dim") for row in self._waiting_rows()]
        room = max(0, rows - len(queue) - len(status))
        doing = [*stage.story.doing(room), *self._shell_rows(width)]
        return [
            *(doing[-room:] if room else []),
            *queue,
            *(stage.ink(row, "accent") for row in status),
        ]

    def _waiting_rows(self) -> list[str]:
        session = self._engine.session
        steered = session.steering.waiting if session else []
        return [*waiting_rows(steered, "told at the next step"), *self._turns.queue.rows()]

    def _tail_rows(self) -> int:
        rows = self._terminal.size.rows
        return max(TAIL_ROWS_MIN, rows // 3) if rows >= LOW_ROWS else 1

    def _shell_rows(self, width: int) -> list[str]:
        output = self._turns.shell_output.rstrip("\n")
        lines = output.split("\n")[-SHELL_ROWS:] if output else []
        return [cut(f"  {line}", width) for line in lines]

    def _status_row(self, width: int) -> list[str]:
        asked, stage = self._approvals.asked, self._engine.stage
        if asked is not None and stage is not None and self._approvals.is_waiting:
            what = stage.question(asked)
            rows = [_waiting_for(what, width)]
            if self._composer.is_used and self._terminal.size.rows >= LOW_ROWS:
                rows.append(cut("  it opens when your message is sent or cleared", width))
            return rows
        line = self._status.line(width)
        return [line] if line else []

    def _figures(self) -> Figures:
        session, stage = self._engine.session, self._engine.stage
        if session is None or stage is None:
            return Figures(
                mode=self._engine.mode, model=self._first_model, branch=self._branch.name
            )
        return Figures(
            mode=self._engine.mode,
            is_confined=session.settings.sandbox != "off",
            model=session.model.name,
            context_tokens=stage.story.context_tokens,
            window_tokens=session.model.window_tokens,
            spending=stage.story.tally.spending,
            branch=self._branch.name,
            background=self._engine.in_background(),
        )


def _waiting_for(what: str, width: int) -> str:
    """The row for a question that waits: what is cut is what it is about, not how to answer."""
    before, after = "? Waiting for approval: ", " (tab to answer)"
    return cut(before + cut(what, max(8, width - len(before) - len(after))) + after, width)
