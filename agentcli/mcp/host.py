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

from agentcli.mcp.forms import form_of, result_of
from agentcli.mcp.patience import Patience
from agentcli.types.forms import Form, FormAnswer

T = TypeVar("T")
FillIn: TypeAlias = Callable[[Form], Awaitable[FormAnswer]]
SampleRequest: TypeAlias = CreateMessageRequestParams
SampleAnswer: TypeAlias = CreateMessageResult | ErrorData
Sample: TypeAlias = Callable[[SampleRequest], Awaitable[SampleAnswer]]


async def declined(form: Form) -> FormAnswer:
    return FormAnswer(action="decline")


class Host:
    def __init__(
        self,
        server: str,
        workspace: Path,
        *,
        patience: Patience,
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
            return result_of(FormAnswer(action="decline"))
        answer = await self._asked(self._fill_in(form_of(self._server, params)))
        return result_of(answer or FormAnswer(action="cancel"))

    def dismiss(self) -> None:
        """Takes back what is being asked: whoever it was asked for has gone."""
        for task in self._asking:
            task.cancel()

    @property
    def sampling(self) -> SamplingFnT | None:
        """None: a server is not even told that it could ask."""
        return self._sampled if self._sample else None

    async def roots(self, context: ClientRequestContext) -> ListRootsResult:
        uri = FileUrl(self._workspace.as_uri())
        return ListRootsResult(roots=[Root(uri=uri, name=self._workspace.name)])

    async def _sampled(self, context: ClientRequestContext, params: SampleRequest) -> SampleAnswer:
        assert self._sample is not None
        if not self._patience.is_tried:
            return ErrorData(code=INTERNAL_ERROR, message="nothing was asked of the server")
        answer = await self._asked(self._sample(params))
        return answer or ErrorData(code=INTERNAL_ERROR, message="cancelled")

    async def _asked(self, work: Awaitable[T]) -> T | None:
        """None: it was dismissed. No time limit runs meanwhile."""
        task = asyncio.ensure_future(work)
        self._asking.add(task)
        try:
            with self._patience.paused():
                await asyncio.wait({task})
        finally:
            self._asking.discard(task)
            task.cancel()
        return None if task.cancelled() else task.result()
