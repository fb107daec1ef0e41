"""An OpenTelemetry collector on loopback, which keeps the names of what it is sent."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.serving import serve


class Names(list[str]):
    """The names of spans."""

    def __init__(self) -> None:
        super().__init__()
        self.metrics: list[str] = []


@contextmanager
def collector() -> Iterator[tuple[str, Names]]:
    names = Names()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/metrics":
                measured = ExportMetricsServiceRequest.FromString(body)
                for of_resource in measured.resource_metrics:
                    for of_scope in of_resource.scope_metrics:
                        names.metrics.extend(metric.name for metric in of_scope.metrics)
            else:
                told = ExportTraceServiceRequest.FromString(body)
                for resource in told.resource_spans:
                    for scope in resource.scope_spans:
                        names.extend(span.name for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Tests are quiet."""

    with serve(HTTPServer(("127.0.0.1", 0), Receiver)) as server:
        yield f"http://127.0.0.1:{server.server_port}", names
