"""The user's credentials for one command, each kind by its own channel, and only if granted.

git asks for them while it runs, and gets those of a host that the command may reach. ssh asks the
user's agent for signatures. gh and npm cannot ask: theirs are variables of the command. Nothing
here is loaded for commands without such a grant.
"""

import asyncio
import os
import subprocess
from base64 import b64encode
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

from agentcli.sandbox.ssh_agent import SshAgent
from agentcli.system import git, own_process
from agentcli.system.files import expand_home, read_regular
from agentcli.system.grants import covers_host
from agentcli.system.hosts import join_port, parse_host, split_port
from agentcli.system.lazy import compile_later
from agentcli.types.errors import SettingsError
from agentcli.types.events import Emit, HostJudged, Warned
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants
from agentcli.types.verdicts import Verdict

_PORTS = {"https": 443, "http": 80}
_PASSED_ON = ("path", "username")
_SECRET = "password"
_ANSWERED = ("username", _SECRET, "password_expiry_utc")
_CONTROL = compile_later(r"[\x00-\x1f\x7f]")


class UserCredentials:
    def __init__(
        self, *, workspace: Path, directory: Path, emit: Emit, conceal: Callable[[str], None]
    ) -> None:
        """`directory` can be read by commands, and not changed.

        `conceal` is told each secret before any command gets it."""
        self._workspace = workspace
        self._directory = directory
        self._emit = emit
        self._conceal = conceal
        self._one_at_a_time = asyncio.Lock()

    async def build_variables(self, grants: Grants) -> dict[str, str]:
        """Return the variables of gh and npm, as far as they are granted.

        Raise OSError if a file cannot be written. If the user has none, there is a warning."""
        variables: dict[str, str] = {}
        if "gh" in grants.credentials:
            variables |= await self._build_gh()
        if "npm" in grants.credentials:
            variables |= self._build_npm(grants)
        return variables

    async def _build_gh(self) -> dict[str, str]:
        token = await asyncio.to_thread(find_gh_token, self._workspace)
        if not token:
            self._warn("gh", "gh has no token of yours; log in with: gh auth login")
            return {}
        self._conceal(token)
        return {"GH_TOKEN": token}

    def _build_npm(self, grants: Grants) -> dict[str, str]:
        """Give npm a file that names variables, so that their values are this command's alone."""
        lines = [one for one in read_npm_settings() if one.is_for(grants)]
        secrets = [one for one in lines if one.is_secret]
        if not secrets:
            self._warn("npm", "your .npmrc has no login for a host that the command may reach")
        for one in secrets:
            self._conceal(one.value)
        names = {one.key: f"AGENTCLI_NPM_{number}" for number, one in enumerate(secrets)}
        shown = [
            f"{one.key}=${{{names[one.key]}}}\n" if one.is_secret else f"{one.key}={one.value}\n"
            for one in lines
        ]
        text = "".join(shown)
        file = self._directory / f"npmrc-{sha256(text.encode()).hexdigest()[:12]}"
        file.write_text(text, encoding="utf-8")
        return {
            "NPM_CONFIG_USERCONFIG": str(file),
            **{names[one.key]: one.value for one in secrets},
        }

    def _warn(self, kind: str, message: str) -> None:
        self._emit(Warned(code=f"credentials.{kind}", message=message))

    async def answer_git(
        self, call_id: str, asked: str, may_reach: Callable[[str, int], Awaitable[bool]]
    ) -> str:
        """Return the user's name and password for a host, as lines of git's credential protocol.

        Raise ValueError with the reason if the command does not get them.
        """
        request = _GitRequest.parse(asked)
        try:
            answer = await self._find_password(request, may_reach)
        except ValueError as error:
            refused = Verdict(decision="deny", by="nobody", reason=str(error))
            self._record(call_id, request, verdict=refused)
            raise ValueError(f"none for {request.target}: {error}") from None
        given = Verdict(decision="allow", by="rule", reason="credentials for git are granted")
        self._record(call_id, request, verdict=given)
        return "".join(f"{key}={answer[key]}\n" for key in _ANSWERED if key in answer)

    async def _find_password(
        self, request: "_GitRequest", may_reach: Callable[[str, int], Awaitable[bool]]
    ) -> dict[str, str]:
        if not await may_reach(request.host, request.port):
            raise ValueError("this host is not granted")
        async with self._one_at_a_time:
            described = request.describe()
            try:
                answer = await asyncio.to_thread(
                    git.fill_credential, described, workspace=self._workspace
                )
            except SettingsError as error:
                raise ValueError(str(error)) from None
        if not answer.get(_SECRET):
            raise ValueError("the user's git knows none without asking")
        self._conceal(answer[_SECRET])
        login = f"{answer.get('username', '')}:{answer[_SECRET]}"
        self._conceal(b64encode(login.encode()).decode())
        return answer

    def _record(self, call_id: str, request: "_GitRequest", *, verdict: Verdict) -> None:
        self._emit(
            HostJudged(
                call_id=call_id,
                host=request.host,
                port=request.port,
                verdict=verdict,
                credential="git",
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _GitRequest:
    scheme: str
    host: str
    """In its one spelling: what is judged is what is asked for."""
    port: int
    rest: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> "_GitRequest":
        """Read what git says to a helper. Raise ValueError if it is nothing that we answer."""
        fields = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
        if any(_CONTROL.search(value) for value in fields.values()):
            raise ValueError("a control character in the request")
        scheme = fields.get("protocol", "")
        if scheme not in _PORTS:
            raise ValueError("only for https and http")
        host, port = split_port(fields.get("host", ""))
        rest = {key: fields[key] for key in _PASSED_ON if key in fields}
        return cls(scheme=scheme, host=parse_host(host), port=port or _PORTS[scheme], rest=rest)

    @property
    def target(self) -> str:
        return f"{self.scheme}://{self._authority}"

    def describe(self) -> dict[str, str]:
        return {"protocol": self.scheme, "host": self._authority, **self.rest}

    @property
    def _authority(self) -> str:
        if self.port == _PORTS[self.scheme]:
            return f"[{self.host}]" if ":" in self.host else self.host
        return join_port(self.host, self.port)


# ssh


_MOST_KNOWN_BYTES = 1024 * 1024


def find_ssh_agent() -> SshAgent | None:
    """Return the agent that the user's environment names; None if there is none."""
    at = Path(os.environ.get("SSH_AUTH_SOCK", ""))
    if not (at.is_absolute() and at.is_socket()):
        return None
    known = expand_home("~/.ssh/known_hosts")
    try:
        return SshAgent(at, read_regular(known, _MOST_KNOWN_BYTES).decode("utf-8", "replace"))
    except OSError:
        return SshAgent(at, "")


# gh


_GH_VARIABLES = ("GH_TOKEN", "GITHUB_TOKEN")
_GH_SETTINGS = ("GH_CONFIG_DIR", "DBUS_SESSION_BUS_ADDRESS")
"""Where gh keeps its token: its own file, or the keyring."""
_GH_LIMIT_S = 5


def find_gh_token(workspace: Path) -> str:
    """Return the token that the user's gh uses; empty if there is none."""
    for name in _GH_VARIABLES:
        if token := os.environ.get(name, "").strip():
            return token
    passed = {name: os.environ[name] for name in _GH_SETTINGS if name in os.environ}
    env = own_process.build_least_environment(workspace) | passed
    try:
        ran = own_process.run(
            ["gh", "auth", "token"],
            workspace=workspace,
            cwd=Path("/"),
            env=env,
            timeout_s=_GH_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.decode("utf-8", "replace").strip() if ran.returncode == 0 else ""


# npm: the lines of .npmrc that say where packages come from, and who the user is there


_NPM_LINE = compile_later(r"\s*([^\s=;#][^=]*?)\s*=\s*(.*?)\s*")
_NPM_LOGIN = compile_later(r"//([^/]+)/(?:.*/)?:(?:_authToken|_auth|_password|username|email)")
_NPM_REGISTRY = compile_later(r"(?:@[^:]+:)?registry")
_NPM_PUBLIC = ("username", "email", "registry")
_NPM_VARIABLE = compile_later(r"\$\{([^}?]+)\??\}")


@dataclass(frozen=True, slots=True)
class NpmSetting:
    key: str
    value: str

    @property
    def is_secret(self) -> bool:
        return not self.key.endswith(_NPM_PUBLIC)

    def is_for(self, grants: Grants) -> bool:
        """Return whether it is needed for a host that these grants name."""
        login = _NPM_LOGIN.fullmatch(self.key)
        if login is None:
            return _NPM_REGISTRY.fullmatch(self.key) is not None
        try:
            return covers_host(grants, login[1])
        except ValueError:
            return False


def read_npm_settings() -> list[NpmSetting]:
    """Return the settings of the user's own .npmrc; empty if there is none."""
    file = expand_home(os.environ.get("NPM_CONFIG_USERCONFIG") or "~/.npmrc")
    try:
        lines = read_regular(file).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    found = {line[1]: line[2] for line in map(_NPM_LINE.fullmatch, lines) if line}
    return [NpmSetting(key, _expand(value.strip("\"'"))) for key, value in found.items()]


def _expand(value: str) -> str:
    return _NPM_VARIABLE.sub(lambda named: os.environ.get(named[1], named[0]), value)
