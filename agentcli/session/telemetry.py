"""OpenTelemetry for a session, if the user has turned it on."""

from typing import TYPE_CHECKING

from agentcli import __version__
from agentcli.settings import Settings
from agentcli.types.errors import SettingsError
from agentcli.types.events import Emit, Event, Warned

if TYPE_CHECKING:
    from agentcli.features.insights.telemetry import SpanExport


class Telemetry:
    """A listener for a session's events. It does nothing with them if telemetry is off."""

    def __init__(self, export: "SpanExport | None", *, content: bool) -> None:
        self._export = export
        self._spans = None
        if export is not None:
            from agentcli.features.insights.telemetry import SpanListener

            self._spans = SpanListener(export.tracer(), content=content)

    def __call__(self, event: Event) -> None:
        if self._spans is not None:
            self._spans(event)

    def close(self, emit: Emit) -> None:
        if self._export is not None and not self._export.close():
            emit(Warned(code="otel.failed", message="not all spans reached the collector"))


def build_telemetry(settings: Settings) -> Telemetry:
    """Build the telemetry. Raise SettingsError if it is turned on and not installed."""
    if not settings.otel:
        return Telemetry(None, content=False)
    try:
        from agentcli.features.insights.telemetry import SpanExport
    except ImportError as error:
        raise SettingsError(
            f"otel is on, but {error.name} is not installed", hint="pip install 'agentcli[otel]'"
        ) from error
    return Telemetry(SpanExport(version=__version__), content=settings.otel_content)
