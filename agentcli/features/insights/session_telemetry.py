"""OpenTelemetry for a session, if the user has turned it on."""

import os
from typing import TYPE_CHECKING

from agentcli import __version__
from agentcli.session.features import SessionFeature
from agentcli.session.session import SessionParts
from agentcli.system.extras import build_extra_command
from agentcli.types.errors import SettingsError
from agentcli.types.events import Emit, Warned

if TYPE_CHECKING:
    from agentcli.features.insights.telemetry import SpanListener, TelemetryExport


def build_session_feature(parts: SessionParts) -> "Telemetry":
    """Build the telemetry. Raise SettingsError if it is not installed."""
    try:
        from agentcli.features.insights.telemetry import (
            SpanListener,
            TelemetryExport,
            read_parent,
        )
    except ImportError as error:
        raise SettingsError(
            f"otel is on, but {error.name} is not installed",
            hint=build_extra_command("otel"),
        ) from error
    has_metrics = os.environ.get("OTEL_METRICS_EXPORTER", "").strip() != "none"
    export = TelemetryExport(version=__version__, has_metrics=has_metrics)
    spans = SpanListener(
        export.build_tracer(),
        content=parts.settings.otel_content,
        metrics=export.build_metrics(),
        find_address=lambda: parts.model.current.base_url,
        parent=read_parent(os.environ),
    )
    parts.child_listeners.append(spans.build_child)
    return Telemetry(export, spans, emit=parts.journal.append)


class Telemetry(SessionFeature):
    def __init__(self, export: "TelemetryExport", spans: "SpanListener", *, emit: Emit) -> None:
        self.listeners = (spans,)
        self._export = export
        self._emit = emit

    async def close(self) -> None:
        if not self._export.close():
            self._emit(Warned(code="otel.failed", message="not all spans reached the collector"))
