"""The settings as one value. `agentcli/settings.py` loads them, and checks each by its type.

To add a setting: its field here, and in `api/sessions` (`SessionOptions`) unless it is about the
screen alone.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.verdicts import Mode

Seconds = Annotated[float, "seconds"]
Dollars = Annotated[float, "dollars"]
Bytes = Annotated[int, "bytes"]
"""Numbers that are written with their unit: `1h30m`, `2.50`, `4G`."""
SandboxChoice = Literal["auto", "bubblewrap", "landlock", "seatbelt", "off"]
MemoryChoice = Literal["ask", "auto", "off"]
CacheChoice = Literal["auto", "5m", "1h"]
Transport = Literal["direct", "sdk"]
THEME_CHOICES = ("auto", "dark", "light", "ansi", "none")
"""The themes beside those in files of the user's own."""
DiffColors = Literal["green-red", "blue-orange"]
ToolSearch = Literal["auto", "own", "provider"]
Notify = Literal["off", "bell", "desktop"]
Editing = Literal["emacs", "vi"]
HOSTED_TOOLS = ("web_search", "web_fetch", "code_execution")
Quirk = Literal[
    "max_tokens",
    "max_completion_tokens",
    "no_stream_usage",
    "no_reasoning_back",
    "reasoning_back",
    "no_strict",
    "no_parallel_switch",
    "no_tool_choice",
    "no_effort",
    "no_null_content",
]
RUN_LIMITS = ("max_turns", "max_cost", "max_tokens", "timeout", "tool_timeout")
"""The limits that a run has as options, and each task of a batch."""
LOWERABLE = (*RUN_LIMITS, "calls_per_minute")
"""The settings of which the lower value holds, if a project or the policy of a machine has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomProvider:
    """A provider that the user has named: any server that speaks one of the protocols."""

    name: str
    protocol: str
    base_url: str
    key_env: str = ""
    """The variable that holds its key; empty if it needs none."""
    quirks: tuple[Quirk, ...] = ()
    """The deviations of its server from Chat Completions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    workspace: Path
    model: str | None = None
    """`provider/name` or an alias; None for any provider that has a key."""
    mode: Mode = "ask"
    managed: tuple[tuple[str, Any], ...] = ()
    """The settings of the machine's own policy, by key. Nothing goes beyond them."""
    max_turns: int = 100
    """The limit of model requests in one turn of a conversation."""
    max_cost: Dollars | None = None
    """The limit in USD for a whole session."""
    agent_max_cost: Dollars | None = None
    """The limit in USD for one background agent, set aside before it starts."""
    agents_max: int = 10
    """The most background agents at a time."""
    strict_cost: bool = False
    """True if a model without a known price may not be used under `max_cost`."""
    max_tokens: int | None = None
    """The limit for all requests of a session, input and output together."""
    timeout: Seconds | None = None
    """The limit in seconds for one turn of a conversation."""
    tool_timeout: Seconds | None = None
    """The longest time in seconds for any command; None for what the model asks, within limits."""
    command_processes: int = 0
    """The most processes of one command; 0 for as many as suit the machine."""
    command_memory: Bytes = 0
    """The most bytes of memory of one command, likewise."""
    command_disk: Bytes = 0
    """The most bytes of disk that become full while one command runs, likewise."""
    command_output: Bytes = 200_000_000
    """The most bytes that are stored of one command's output."""
    checks: tuple[tuple[str, str], ...] = ()
    """Commands that look for errors after an edit, each with the pattern of its files."""
    verify: tuple[str, ...] = ()
    """Commands that must pass before a turn that changed something is done."""
    web: bool = False
    """True if the model may ask for pages of the web. Each host still needs approval or a rule."""
    search: str | None = None
    """The search engine for `web`: brave, tavily, or the address of a SearXNG server."""
    computer: bool = False
    """True if the model may use a browser in the sandbox, by its provider's computer tool."""
    hosted: tuple[str, ...] = ()
    """Tools that the provider runs itself, such as web_search."""
    delegate: bool = False
    """True if the model may use child agents where there are no roles: this costs a declaration."""
    programs: bool = False
    """True if the model may write programs that call the tools: this costs a declaration."""
    memory: MemoryChoice = "off"
    """Whether turns are remembered for later sessions: after a question, always, or never."""
    symbols: bool = False
    """True if the model may search an index of the code: this costs a declaration."""
    parallel: bool = True
    """True if the model may make several calls in one reply, and reads run at the same time."""
    calls_per_minute: int = 1000
    """The limit for each tool."""
    effort: str | None = None
    cache: CacheChoice = "auto"
    """How long providers keep prompts that let us choose; `auto`: 1h in sessions, 5m in runs."""
    service_tier: str | None = None
    """The provider's own word for how fast and at what price it answers."""
    small_model: str | None = None
    """The model for summaries and child agents; None for the session's own."""
    transport: Transport = "direct"
    """Our own socket, or that of the official SDKs."""
    tool_search: ToolSearch = "auto"
    """The loader of tools that a search finds: our next request, or the provider, in place."""
    store: bool = False
    """True if the provider stores the conversation, where it can, and is sent only what is new."""
    window: int | None = None
    """Tokens of the model's window to use: fewer than it has, or its size if that is unknown."""
    max_wait: Seconds = 60.0
    """The longest wait in seconds before the next attempt."""
    stall_timeout: Seconds | None = None
    """Seconds of silence after which a reply counts as broken; None for minutes, as models need."""
    providers: tuple[CustomProvider, ...] = ()
    otel: bool = False
    """True if spans are sent to an OpenTelemetry collector."""
    otel_content: bool = False
    """True if the spans include the content of messages and calls."""
    sandbox: SandboxChoice = "auto"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    """Rules from the command line."""
    network: tuple[str, ...] = ()
    """Hosts, or presets of them, that every command may reach."""
    policy: Path | None = None
    """A rule file for this run."""
    pass_env: tuple[str, ...] = ()
    """Variables that commands may see in addition to the usual ones."""
    mask: tuple[str, ...] = ()
    """Variables, or globs for them, whose values are secret whatever their names are."""
    add_dir: tuple[str, ...] = ()
    """Directories beside the workspace from the command line, `DIR` or `DIR:ro`."""
    directories: tuple[str, ...] = ()
    """The same, from the settings file."""
    sessions: Path | None = None
    """The directory of the sessions; None for the platform's state directory."""
    fallback: str | None = None
    """The model that takes over when the one in use does not answer; None for no fallback."""
    evaluator: str | None = None
    """The model that is asked where a rule says `judge`; None for the session's own."""
    mcp_config: Path | None = None
    """A file with more MCP servers. They win over servers of the same name elsewhere."""
    mcp_wait: Seconds = 5.0
    """The longest time in seconds that the first request waits for servers that list their tools
    for the first time."""
    trust_project: bool = False
    """True if this run uses what the repository brings, even if it was not trusted before."""
    theme: str = "auto"
    diff_colors: DiffColors = "green-red"
    statusline: str | None = None
    """A command whose first line of output is shown in the toolbar."""
    notify: Notify = "off"
    """The alert for the user after a long turn, or when there is a question."""
    editing: Editing = "emacs"
    accessible: bool = False
    """True if the session prints whole lines that are never moved or redrawn."""
    keys: tuple[tuple[str, str], ...] = ()
    """Other keys for the actions that `/keys` lists, such as `transcript = "c-t"`."""
    explicit_keys: frozenset[str] = frozenset()
    """The keys set by flags and environment. A project's settings do not change them."""
