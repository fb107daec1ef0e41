"""One list to choose from, for sessions, models, turns and agents: filtered as the user types.

It is drawn below the transcript, with a preview of the selected row, and leaves nothing behind.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout.containers import Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.layout import Layout
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.styles import Style

from agentcli.system.plain_text import show_controls
from agentcli.ui.repl.screen import Column
from agentcli.ui.repl.status import shorten_end
from agentcli.ui.repl.terminal import Terminal, TerminalInput

LIST_ROWS = 12
PREVIEW_ROWS = 5
OTHER_ROWS = 4
"""The title, the row that says what the keys do, and two rows of committed text."""
REFRESH_S = 0.25
"""How often rows that change by themselves are read again."""
KEY_HINTS = "type to filter · ↑↓ select · enter choose · esc cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class PickerRow:
    label: str
    preview: str = ""
    """What the user sees of the row when it is selected, in a few lines."""


PickerRows = Sequence[PickerRow] | Callable[[], Sequence[PickerRow]]
"""The rows, or a function that returns them as they are now."""


class Picker:
    """The rows that match what was typed, and the selected one."""

    def __init__(self, title: str, rows: Sequence[PickerRow], *, selected: int = 0) -> None:
        self.title = title
        self._typed = ""
        self._at = selected
        self._matching = list(range(len(rows)))
        self.update(rows)

    @property
    def chosen(self) -> int | None:
        """The index of the selected row, or None if no row matches."""
        return self._matching[self._at] if self._matching else None

    def update(self, rows: Sequence[PickerRow]) -> None:
        """Show these rows instead. The selected one is the same by its number."""
        self._rows = [
            PickerRow(label=show_controls(row.label.replace("\n", " ")), preview=row.preview)
            for row in rows
        ]
        self.filter(self._typed)

    def filter(self, typed: str) -> None:
        """Keep the rows that contain every word, in their order."""
        self._typed = typed
        words = typed.lower().split()
        before = self.chosen
        self._matching = [
            index
            for index, row in enumerate(self._rows)
            if all(word in row.label.lower() for word in words)
        ]
        self._at = self._matching.index(before) if before in self._matching else 0

    def move(self, steps: int) -> None:
        if self._matching:
            self._at = max(0, min(self._at + steps, len(self._matching) - 1))

    def render(self, *, columns: int, rows: int) -> StyleAndTextTuples:
        """Return the list and the preview, each row shorter than the terminal is wide."""
        width = max(2, columns - 4)
        room = max(1, min(LIST_ROWS, rows - OTHER_ROWS - PREVIEW_ROWS))
        start = max(0, min(self._at - room // 2, len(self._matching) - room))
        shown: StyleAndTextTuples = []
        for at, index in enumerate(self._matching[start : start + room], start):
            is_selected = at == self._at
            text = shorten_end(self._rows[index].label, width)
            shown.append(
                ("bold" if is_selected else "", f"{'> ' if is_selected else '  '}{text}\n")
            )
        if not self._matching:
            shown.append(("class:dim", "  nothing matches\n"))
        if rows > OTHER_ROWS + PREVIEW_ROWS + 1:
            shown += self._render_preview(width)
        counted = f"{len(self._matching)} of {len(self._rows)} · {KEY_HINTS}"
        shown.append(("class:dim", shorten_end(counted, width)))
        return shown

    def _render_preview(self, width: int) -> StyleAndTextTuples:
        preview = "" if self.chosen is None else self._rows[self.chosen].preview
        lines = [line for line in preview.strip().split("\n") if line.strip()][:PREVIEW_ROWS]
        return [
            ("class:dim", f"    {shorten_end(show_controls(line), width - 2)}\n") for line in lines
        ]


async def pick_row(
    title: str,
    rows: PickerRows,
    *,
    terminal: Terminal,
    selected: int = 0,
    styles: Mapping[str, str] | None = None,
    color_depth: ColorDepth = ColorDepth.DEPTH_1_BIT,
) -> int | None:
    """Return the index of the row that the user chose, or None if they chose none."""
    picker = Picker(title, rows() if callable(rows) else rows, selected=selected)
    typed = Buffer(multiline=False, on_text_changed=lambda buffer: picker.filter(buffer.text))
    question = Window(
        BufferControl(typed),
        height=1,
        dont_extend_height=True,
        get_line_prefix=lambda line, wrap: [("bold", f"{title}: ")],
    )

    def render() -> StyleAndTextTuples:
        if callable(rows):
            picker.update(rows())
        size = terminal.size
        return picker.render(columns=size.columns, rows=size.rows)

    app: Application[int | None] = Application(
        layout=Layout(
            Column([question, Window(FormattedTextControl(render), dont_extend_height=True)])
        ),
        key_bindings=_build_keys(picker),
        style=Style.from_dict(dict(styles or {"dim": "dim"})),
        color_depth=color_depth,
        input=TerminalInput(sys.stdin),  # the session's own would take part of a key sequence
        output=terminal.output,
        erase_when_done=True,
        full_screen=False,
        mouse_support=False,
        refresh_interval=REFRESH_S if callable(rows) else None,
        include_default_pygments_style=False,
    )
    app.ttimeoutlen, app.timeoutlen = 0.05, 0.2
    return await app.run_async()


def _build_keys(picker: Picker) -> KeyBindings:
    keys = KeyBindings()

    def bind(names: Sequence[str], steps: int) -> None:
        for name in names:
            keys.add(name)(lambda event: picker.move(steps))

    bind(("up", "c-p"), -1)
    bind(("down", "c-n", "tab"), 1)
    bind(("pageup",), -LIST_ROWS)
    bind(("pagedown",), LIST_ROWS)

    @keys.add("enter")
    def choose(event: KeyPressEvent) -> None:
        if picker.chosen is not None:
            event.app.exit(result=picker.chosen)

    @keys.add("escape", eager=True)
    @keys.add("c-c")
    @keys.add("c-d")
    @keys.add("<sigint>")
    def cancel(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    return keys
