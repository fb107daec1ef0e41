"""OpenTelemetry for a session, if the user has turned it on."""

from typing import TYPE_CHECKING

from agentcli import __version__
from agentcli.session.features import SessionFeature
from agentcli.session.parts import SessionParts
from agentcli.types.errors import SettingsError
from agentcli.types.events import Emit, Warned

if TYPE_CHECKING:
    from agentcli.features.insights.telemetry import SpanExport, SpanListener


def build_session_feature(parts: SessionParts) -> "Telemetry | None":
    """Build the telemetry. Raise SettingsError if it is turned on and not installed."""
    if not parts.settings.otel:
        return None
    try:
        from agentcli.features.insights.telemetry import SpanExport, SpanListener
    except ImportError as error:
        raise SettingsError(
            f"otel is on, but {error.name} is not installed", hint="pip install 'agentcli[otel]'"
        ) from error
    export = SpanExport(version=__version__)
    spans = SpanListener(export.tracer(), content=parts.settings.otel_content)
    return Telemetry(export, spans, emit=parts.journal.append)


class Telemetry(SessionFeature):
    def __init__(self, export: "SpanExport", spans: "SpanListener", *, emit: Emit) -> None:
        self.listeners = (spans,)
        self._export = export
        self._emit = emit

    async def close(self) -> None:
        if not self._export.close():
            self._emit(Warned(code="otel.failed", message="not all spans reached the collector"))
