"""agentcli as an agent of Harbor, the harness of Terminal-Bench: installed and run in a container.

Harbor imports it by `--agent agentcli.features.eval.harbor:HarborAgent`.
"""

import json
from pathlib import PurePath
from shlex import join, quote
from typing import Annotated, Any

from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template
from harbor.agents.model_connection import ModelConnectionSpec
from harbor.agents.options import Cli, InstalledAgentOptions
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from pydantic import Field

_HOME = "/installed-agent"
_PATH = f'export PATH="{_HOME}/bin:$HOME/.local/bin:$PATH"'
_ENDED = "0|5|6|8|124"
"""The exit codes of runs that ended by themselves: whatever they did is verified."""


class HarborOptions(InstalledAgentOptions):
    """The options of `--agent-kwarg`."""

    package: str = Field(description="What to install: a wheel of this machine, or a git URL.")
    max_turns: Annotated[int | None, Cli("--max-turns")] = Field(default=None)
    max_cost: Annotated[float | None, Cli("--max-cost")] = Field(default=None)
    effort: Annotated[str | None, Cli("--effort")] = Field(default=None)


class HarborAgent(BaseInstalledAgent):
    capabilities = AgentCapabilities(atif=True)
    MODEL_CONNECTION = ModelConnectionSpec(passthrough=True)
    options_model = HarborOptions

    @staticmethod
    def name() -> str:
        return "agentcli"

    def get_version_command(self) -> str:
        return f"{_PATH}; agentcli --version"

    def parse_version(self, stdout: str) -> str:
        return stdout.split()[-1]

    async def install(self, environment: BaseEnvironment) -> None:
        needed = ("git", "python3", "python_venv", "ca_certificates")
        await self.ensure_system_dependencies(environment, needed)
        package = self.options.package
        if package.endswith(".whl"):
            target = f"{_HOME}/{PurePath(package).name}"
            await environment.upload_file(package, target)
            package = target
        # uv brings a Python if that of the image is too old.
        install = (
            f"python3 -m venv {_HOME}/uv && {_HOME}/uv/bin/pip install --quiet uv && "
            f"UV_TOOL_DIR={_HOME}/tools UV_TOOL_BIN_DIR={_HOME}/bin UV_PYTHON_INSTALL_DIR={_HOME}"
            f"/python {_HOME}/uv/bin/uv tool install --python '>=3.11' {quote(package)}"
        )
        await self.exec_as_root(environment, command=install)

    @with_prompt_template
    async def run(
        self, instruction: str, environment: BaseEnvironment, *, context: AgentContext
    ) -> None:
        """Run the task. The container is the sandbox."""
        logs = self.environment_logs_dir
        model = ("--model", self.model_name) if self.model_name else ()
        output = ("--output-dir", f"{logs}/agentcli")
        run = join(("agentcli", "run", "-", "--mode", "auto", "--sandbox", "off", *model, *output))
        trajectory = ("--format", "atif", "-o", f"{logs}/trajectory.json")
        export = join(("agentcli", "export", f"{logs}/agentcli/log.jsonl", *trajectory))
        command = (
            f"{_PATH}; printf %s {quote(instruction)} | {run} {self.build_cli_flags()} "
            f"2> {quote(f'{logs}/agentcli.txt')}; code=$?; {export}; "
            f"case $code in {_ENDED}) ;; *) exit $code ;; esac"
        )
        env = dict(self.model_connection.env)
        await self.exec_as_agent(environment, command=command, env=env)

    def populate_context_post_run(self, context: AgentContext) -> None:
        path = self.logs_dir / "agentcli" / "result.json"
        if not path.is_file():
            return  # it could not start, which Harbor has been told
        result: dict[str, Any] = json.loads(path.read_bytes())
        context.n_input_tokens = result["usage"]["input"]
        context.n_cache_tokens = result["usage"]["cached"]
        context.n_output_tokens = result["usage"]["output"]
        context.cost_usd = result["cost_usd"]
        context.metadata = {"session": result["session"], "ending": result["ending"]}
