"""Commands about how the session looks and is written in."""

from agentcli.types.errors import UsageError
from agentcli.ui.repl.desk import Desk, SlashCommand

THEMES = ("auto", "dark", "light", "ansi", "none")


def commands() -> list[SlashCommand]:
    return [
        SlashCommand(
            name="theme",
            usage="[NAME]",
            help="the colours",
            run=_theme,
            complete=lambda desk: [(name, "") for name in THEMES],
            works_alone=True,
        ),
        SlashCommand(name="vim", usage="", help="vi keys in the input, on or off", run=_vim),
        SlashCommand(name="editor", usage="", help="write in $VISUAL or $EDITOR", run=_editor),
    ]


async def _theme(desk: Desk, rest: str) -> None:
    if rest not in THEMES:
        if rest:
            raise UsageError(f"there is no theme {rest}", hint=f"/theme {' | '.join(THEMES)}")
        desk.say(f"theme {desk.stage.theme_name} ({desk.stage.theme.name})", "dim")
        return
    desk.stage.use_theme(rest)
    desk.dress()
    desk.say(f'theme {rest}; to keep it: theme = "{rest}" in the settings', "dim")


async def _vim(desk: Desk, rest: str) -> None:
    desk.set_editing("emacs" if desk.editing == "vi" else "vi")
    desk.say(f"{desk.editing} keys", "dim")


async def _editor(desk: Desk, rest: str) -> None:
    await desk.edit()
