"""An OpenTelemetry collector on loopback, which keeps the names of the spans it is sent."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@contextmanager
def collector() -> Iterator[tuple[str, list[str]]]:
    names: list[str] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told = ExportTraceServiceRequest.FromString(body)
            for resource in told.resource_spans:
                for scope in resource.scope_spans:
                    names.extend(span.name for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Tests are quiet."""

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", names
    finally:
        server.shutdown()
        server.server_close()
