import socket
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk")

from tests.support.collector import collector
from tests.support.program import agentcli, script

SPANS = ["chat s.json", "chat s.json", "execute_tool read_file", "invoke_agent agentcli"]


def model(home: Path) -> str:
    return script(home / "s.json", [{"calls": [{"read_file": {"path": "s.json"}}]}, "Done."])


def test_run_sends_spans_only_when_it_is_turned_on(tmp_path: Path) -> None:
    with collector() as (endpoint, names):
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        assert agentcli("run", "--model", model(tmp_path), "x", home=tmp_path, env=env).code == 0
        assert names == []
        on = {**env, "AGENTCLI_OTEL": "1"}
        ran = agentcli("run", "--model", model(tmp_path), "x", home=tmp_path, env=on)
        assert (ran.code, ran.out, sorted(names)) == (0, "Done.\n", SPANS)
        assert sorted(names.metrics) == [
            "gen_ai.client.operation.duration",
            "gen_ai.client.token.usage",
        ]


def test_child_agents_are_in_the_same_trace(tmp_path: Path) -> None:
    replies = [{"calls": [{"delegate": {"task": "look"}}]}, "Found.", "Done."]
    with collector() as (endpoint, names):
        env = {
            "AGENTCLI_OTEL": "1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "OTEL_METRICS_EXPORTER": "none",
        }
        told = script(tmp_path / "s.json", replies)
        assert agentcli("run", "--model", told, "x", home=tmp_path, env=env).code == 0
        assert (names.count("invoke_agent agentcli"), names.count("chat s.json")) == (2, 3)
        assert names.metrics == []


def test_dead_collector_is_a_warning_and_nothing_more(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        env = {
            "AGENTCLI_OTEL": "1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{closed.getsockname()[1]}",
        }
        ran = agentcli("run", "--model", model(tmp_path), "x", home=tmp_path, env=env)
    assert (ran.code, ran.out) == (0, "Done.\n")
    assert "warning: not all spans reached the collector" in ran.err
    assert "Traceback" not in ran.err
