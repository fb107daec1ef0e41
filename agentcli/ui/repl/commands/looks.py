"""Commands about how the session looks and is written in."""

from agentcli.types.errors import UsageError
from agentcli.ui.repl.desk import CommandHost, SlashCommand

THEME_CHOICES = ("auto", "dark", "light", "ansi", "none")


def list_look_commands() -> list[SlashCommand]:
    return [
        SlashCommand(
            name="theme",
            usage="[NAME]",
            help="the colours",
            run=_change_theme,
            list_arguments=lambda desk: [(name, "") for name in THEME_CHOICES],
            works_alone=True,
        ),
        SlashCommand(name="vim", usage="", help="vi keys in the input, on or off", run=_toggle_vi),
        SlashCommand(name="editor", usage="", help="write in $VISUAL or $EDITOR", run=_open_editor),
    ]


async def _change_theme(host: CommandHost, rest: str) -> None:
    if rest not in THEME_CHOICES:
        if rest:
            raise UsageError(
                f"there is no theme {rest}", hint=f"/theme {' | '.join(THEME_CHOICES)}"
            )
        host.say(f"theme {host.renderer.theme_name} ({host.renderer.theme.name})", "dim")
        return
    host.renderer.use_theme(rest)
    host.apply_theme()
    host.say(f'theme {rest}; to keep it: theme = "{rest}" in the settings', "dim")


async def _toggle_vi(host: CommandHost, rest: str) -> None:
    host.set_editing("emacs" if host.editing == "vi" else "vi")
    host.say(f"{host.editing} keys", "dim")


async def _open_editor(host: CommandHost, rest: str) -> None:
    await host.edit()
