"""The user's credentials for one command, each kind by its own channel, and only if granted.

git asks for them while it runs, and gets those of a host that the command may reach. Nothing here
is loaded for commands without such a grant.
"""

import asyncio
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from agentcli.system import git
from agentcli.system.hosts import join_port, parse_host, split_port
from agentcli.types.errors import SettingsError
from agentcli.types.events import Emit, HostJudged
from agentcli.types.verdicts import Verdict

_PORTS = {"https": 443, "http": 80}
_PASSED_ON = ("path", "username")
_SECRET = "password"
_ANSWERED = ("username", _SECRET, "password_expiry_utc")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class UserCredentials:
    def __init__(self, *, workspace: Path, emit: Emit, conceal: Callable[[str], None]) -> None:
        """`conceal` is told each secret before any command gets it."""
        self._workspace = workspace
        self._emit = emit
        self._conceal = conceal
        self._one_at_a_time = asyncio.Lock()

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
            self._record(call_id, request, refused)
            raise ValueError(f"none for {request.target}: {error}") from None
        given = Verdict(decision="allow", by="rule", reason="credentials for git are granted")
        self._record(call_id, request, given)
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
                    git.fill_credential, described, beside=self._workspace
                )
            except SettingsError as error:
                raise ValueError(str(error)) from None
        if not answer.get(_SECRET):
            raise ValueError("the user's git knows none without asking")
        self._conceal(answer[_SECRET])
        login = f"{answer.get('username', '')}:{answer[_SECRET]}"
        self._conceal(b64encode(login.encode()).decode())
        return answer

    def _record(self, call_id: str, request: "_GitRequest", verdict: Verdict) -> None:
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
