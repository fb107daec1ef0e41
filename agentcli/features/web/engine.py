"""The web for the model, if the user has turned it on by a setting or a rule.

Tools that the provider runs itself are declared by the dialects. Here their use is watched: what
they bring is foreign text, like that of a page.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.toolset import Offer
from agentcli.session.features import SessionFeature, allows_web
from agentcli.session.session import SessionParts
from agentcli.tools.contracts import load_spec
from agentcli.types.events import Event, ModelReplied, Warned
from agentcli.types.tools import Tool

if TYPE_CHECKING:
    from agentcli.providers.catalog import Provider


def build_session_feature(parts: SessionParts) -> "Web":
    return Web(parts)


class Web(SessionFeature):
    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self.listeners = (self._mark_foreign,)
        parts.child_listeners.append(lambda role, call_id: self._mark_foreign)
        self._engine = self._find_engine()
        self.offers = tuple(self._iter_offers())

    def _iter_offers(self) -> Iterator[Offer]:
        if self._parts.settings.web or allows_web(self._parts.configuration):
            yield load_spec("web_fetch"), self._build_fetch
        if self._engine is not None:
            yield load_spec("web_search"), self._build_search

    def _find_engine(self) -> "Provider | None":
        """Return the configured search engine, or None with a warning if it has no key."""
        name = self._parts.settings.search
        if name is None or not self._parts.settings.web:
            return None
        from agentcli.features.web.web_search import choose_engine, explain_missing_key

        engine = choose_engine(name)
        if warning := explain_missing_key(engine):
            self.warnings = (Warned(code="web.search", message=warning),)
            return None
        return engine

    def _build_search(self) -> Tool:
        from agentcli.features.web.web_search import WebSearch

        assert self._engine is not None
        return WebSearch(self._engine)

    def _mark_foreign(self, event: Event) -> None:
        if isinstance(event, ModelReplied) and any(
            call.tool in ("web_search", "web_fetch") for call in event.message.hosted
        ):
            self._parts.gate.mark_untrusted()

    def _build_fetch(self) -> Tool:
        from agentcli.features.web.client import WebClient
        from agentcli.features.web.web_fetch import WebFetch
        from agentcli.providers.http.route import build_tls_context
        from agentcli.session.sandbox_host import find_upstream

        parts = self._parts
        client = WebClient(
            judge=parts.gate.judge_web_host,
            emit=parts.journal.append,
            tls=lambda: build_tls_context(os.environ),
            find_upstream=find_upstream,
        )
        return WebFetch(
            client,
            directory=Path(os.path.realpath(parts.paths.out)),
            takes_images=lambda: parts.model.current.images,
            clean=parts.gate.redactor.mask,
        )
