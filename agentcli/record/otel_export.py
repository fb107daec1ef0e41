"""Spans on their way to a collector, in the background: a dead one costs a session nothing.

Where to, and with which headers, say the usual OTEL_EXPORTER_OTLP_* variables.
"""

import logging
from collections.abc import Sequence
from threading import Thread

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Tracer

LAST_WORDS_S = 1.0
"""How long the end of a session waits for what is not sent yet."""


class SpanExport:
    def __init__(self, *, version: str, exporter: SpanExporter | None = None) -> None:
        # Its failures are ours to tell, once, and not to print into a person's terminal.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._version = version
        self._exporter = _WatchedExporter(exporter or OTLPSpanExporter())
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": "agentcli", "service.version": version}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))

    def tracer(self) -> Tracer:
        return self._provider.get_tracer("agentcli", self._version)

    def close(self) -> bool:
        """Sends what is left, for a moment. Whether everything arrived."""
        closing = Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(LAST_WORDS_S)
        return not closing.is_alive() and not self._exporter.has_failed


class _WatchedExporter(SpanExporter):
    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.has_failed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        self.has_failed = self.has_failed or result is not SpanExportResult.SUCCESS
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
