"""Pages of the web for the model, if the user has turned that on by a setting or a rule."""

import os
from collections.abc import Iterator

from agentcli.agent.toolset import Load
from agentcli.session.features import SessionFeature
from agentcli.session.parts import SessionParts
from agentcli.tools.contracts import load_spec
from agentcli.types.tools import Tool, ToolSpec


def build_session_feature(parts: SessionParts) -> "Web | None":
    return Web(parts) if parts.settings.web or parts.gate.allows_web else None


class Web(SessionFeature):
    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts

    def iter_offers(self) -> Iterator[tuple[ToolSpec, Load]]:
        yield load_spec("web_fetch"), self._build_fetch

    def _build_fetch(self) -> Tool:
        from agentcli.features.web.client import WebClient
        from agentcli.features.web.web_fetch import WebFetch
        from agentcli.providers.http.route import tls_context
        from agentcli.session.sandbox_host import find_upstream

        parts = self._parts
        client = WebClient(
            judge=parts.gate.judge_web_host,
            emit=parts.journal.append,
            tls=lambda: tls_context(os.environ),
            find_upstream=find_upstream,
        )
        return WebFetch(
            client,
            directory=parts.paths.out.resolve(),
            takes_images=lambda: parts.model.current.images,
        )
