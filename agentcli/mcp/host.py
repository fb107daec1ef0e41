"""Our side of what a server may ask: a person's answer, the model's, and where the workspace is."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from mcp.client.session import ClientRequestContext, SamplingFnT
from mcp_types import (
    INTERNAL_ERROR,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    Root,
)
from pydantic import FileUrl

from agentcli.mcp.forms import make_elicit_result, make_form
from agentcli.mcp.patience import PausableTimeout
from agentcli.types.forms import FormAnswer, ServerForm

T = TypeVar("T")
FillIn: TypeAlias = Callable[[ServerForm], Awaitable[FormAnswer]]
SampleRequest: TypeAlias = CreateMessageRequestParams
SampleAnswer: TypeAlias = CreateMessageResult | ErrorData
Sample: TypeAlias = Callable[[SampleRequest], Awaitable[SampleAnswer]]


async def decline(form: ServerForm) -> FormAnswer:
    return FormAnswer(action="decline")


class ServerHost:
    def __init__(
        self,
        server: str,
        workspace: Path,
        *,
        patience: PausableTimeout,
        fill_in: FillIn,
        sample: Sample | None,
    ) -> None:
        self._server = server
        self._workspace = workspace
        self._patience = patience
        self._fill_in = fill_in
        self._sample = sample
        self._asking: set[asyncio.Future[Any]] = set()

    async def elicit(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult:
        if not self._patience.is_tried:  # a server speaks when it is spoken to
            return make_elicit_result(FormAnswer(action="decline"))
        answer = await self._run_question(self._fill_in(make_form(self._server, params)))
        return make_elicit_result(answer or FormAnswer(action="cancel"))

    def dismiss(self) -> None:
        """Takes back what is being asked: whoever it was asked for has gone."""
        for task in self._asking:
            task.cancel()

    @property
    def sampling(self) -> SamplingFnT | None:
        """None: a server is not even told that it could ask."""
        return self._sample_model if self._sample else None

    async def roots(self, context: ClientRequestContext) -> ListRootsResult:
        uri = FileUrl(self._workspace.as_uri())
        return ListRootsResult(roots=[Root(uri=uri, name=self._workspace.name)])

    async def _sample_model(
        self, context: ClientRequestContext, params: SampleRequest
    ) -> SampleAnswer:
        assert self._sample is not None
        if not self._patience.is_tried:
            return ErrorData(code=INTERNAL_ERROR, message="nothing was asked of the server")
        answer = await self._run_question(self._sample(params))
        return answer or ErrorData(code=INTERNAL_ERROR, message="cancelled")

    async def _run_question(self, work: Awaitable[T]) -> T | None:
        """None: it was dismissed. No time limit runs meanwhile."""
        task = asyncio.ensure_future(work)
        self._asking.add(task)
        try:
            with self._patience.pause():
                await asyncio.wait({task})
        finally:
            self._asking.discard(task)
            task.cancel()
        return None if task.cancelled() else task.result()
