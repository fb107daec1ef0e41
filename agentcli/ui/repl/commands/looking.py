"""Commands that show something: cards, figures, changes, tools, background commands."""

import asyncio
import subprocess

from agentcli.agent.size import spec_tokens
from agentcli.agent.skills import find_skills
from agentcli.app.briefing import skill_folders
from agentcli.app.context import contents
from agentcli.machine.plain import visible
from agentcli.settings import settings_file
from agentcli.tools.contracts import BUILT_IN, contract
from agentcli.types.errors import UsageError
from agentcli.ui.context import chart
from agentcli.ui.render.escape import escape
from agentcli.ui.render.summary import cost, elapsed
from agentcli.ui.repl.desk import Desk, SlashCommand


def commands() -> list[SlashCommand]:
    return [
        SlashCommand(
            name="show",
            usage="N [--model]",
            help="a card, whole, or what the model got of it",
            run=_show,
        ),
        SlashCommand(name="context", usage="", help="what fills the model's window", run=_context),
        SlashCommand(name="skills", usage="", help="what the model can read up on", run=_skills),
        SlashCommand(name="cost", usage="", help="tokens and money so far", run=_cost),
        SlashCommand(name="diff", usage="[PATH]", help="what has changed, by git", run=_diff),
        SlashCommand(name="tools", usage="", help="what the model can call", run=_tools),
        SlashCommand(name="bg", usage="", help="commands in the background", run=_background),
        SlashCommand(
            name="thinking",
            usage="on|off",
            help="show what the model thinks",
            run=_thinking,
            complete=lambda desk: [("on", ""), ("off", "")],
        ),
        SlashCommand(name="config", usage="", help="the settings in use", run=_config),
    ]


async def _show(desk: Desk, rest: str) -> None:
    words = rest.split()
    number = next((word for word in words if word.isdigit()), None)
    if number is None or set(words) - {number, "--model"}:
        raise UsageError("which card?", hint="/show 7   or, as the model got it: /show 7 --model")
    desk.print(desk.stage.story.cards.show(int(number[:9]), for_model="--model" in words))


async def _context(desk: Desk, rest: str) -> None:
    session = desk.session
    found = contents(
        session.facts, session=session.place.id, window_tokens=session.model.window_tokens
    )
    desk.say("\n".join(chart(found)), "dim")


async def _skills(desk: Desk, rest: str) -> None:
    skills, bad = find_skills(skill_folders(desk.settings))
    desk.table([(skill.name, escape(skill.description)) for skill in skills])
    for warning in bad:
        desk.say(escape(warning.message), "dim")
    if not skills and not bad:
        desk.say("no skills: put one into .agentcli/skills/NAME/SKILL.md", "dim")


async def _cost(desk: Desk, rest: str) -> None:
    tally = desk.stage.story.tally
    usage = tally.usage
    price = "not known" if tally.cost_usd is None else cost(tally.cost_usd)
    cached = 100 * usage.cache_read_tokens / usage.prompt_tokens if usage.prompt_tokens else 0
    desk.table(
        [
            ("requests", str(tally.turns)),
            ("tokens in", f"{usage.prompt_tokens} ({cached:.0f} % from the cache)"),
            ("tokens out", f"{usage.output_tokens} ({usage.reasoning_tokens} thinking)"),
            ("model time", elapsed(tally.model_s)),
            ("cost", price),
        ]
    )


async def _diff(desk: Desk, rest: str) -> None:
    command = ["git", "--no-pager", "-c", "core.fsmonitor=false", "diff", "--no-ext-diff"]
    command += ["--no-textconv", "HEAD", "--", *([rest] if rest else [])]
    ran = await asyncio.to_thread(
        subprocess.run,
        command,
        cwd=desk.settings.workspace,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
    )
    if ran.returncode != 0:
        raise UsageError("git has no diff to show", hint=ran.stderr.strip().split("\n")[-1])
    if not ran.stdout.strip():
        desk.say("nothing has changed since the last commit", "dim")
        return
    desk.print(desk.stage.patch(ran.stdout))


async def _tools(desk: Desk, rest: str) -> None:
    specs = [contract(name) for name in BUILT_IN]
    desk.table([(spec.name, f"{spec_tokens(spec)} tokens, {spec.source}") for spec in specs])


async def _background(desk: Desk, rest: str) -> None:
    running = desk.session.running()
    if not running:
        desk.say("no command runs in the background", "dim")
        return
    desk.table([(str(one.pid), f"{visible(one.command)}  log {one.log_path}") for one in running])


async def _thinking(desk: Desk, rest: str) -> None:
    if rest not in ("on", "off"):
        raise UsageError("say on or off", hint="/thinking on")
    desk.stage.story.shows_thinking = rest == "on"
    desk.say(f"thinking is {'shown' if rest == 'on' else 'not shown'}", "dim")


async def _config(desk: Desk, rest: str) -> None:
    settings = desk.session.settings
    rows = [("file", str(settings_file())), ("workspace", str(settings.workspace))]
    names = ("model", "mode", "sandbox", "max_turns", "max_cost", "theme", "notify", "editing")
    rows += [(name, str(getattr(settings, name))) for name in names]
    desk.table(rows)
