import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agentcli.features.insights.finding import TriageCase
from agentcli.features.insights.render_trace import render_trace
from agentcli.features.insights.trace import build_trace, read_trace
from agentcli.features.insights.triage import run_checks
from agentcli.system.plain_text import show_controls
from agentcli.types.events import Entry, Fact
from agentcli.types.messages import Text, ToolCall
from tests.support.examples import examples
from tests.support.sick_logs import HERE, STARTED, asked, judged, replied

LOG = (HERE / "circling.jsonl").read_bytes()
RECORDS = LOG.splitlines(keepends=True)

junk = st.sampled_from(
    [b"\n", b"{}\n", b"[]\n", b"null\n", b'{"fact":{"type":"told"}}\n', b"\xff\xfe\n", b"[" * 5000]
)
cuts = st.integers(0, len(LOG)).map(lambda size: LOG[:size])
flips = st.tuples(st.integers(0, len(LOG) - 1), st.integers(0, 255)).map(
    lambda flip: LOG[: flip[0]] + bytes([flip[1]]) + LOG[flip[0] + 1 :]
)
shuffles = st.lists(st.sampled_from(RECORDS) | junk, max_size=20).map(b"".join)


@examples(150)
@given(st.one_of(cuts, flips, shuffles))
def test_any_damage_is_told_and_breaks_nothing(log: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "log.jsonl")
        path.write_bytes(log)
        trace = read_trace(path)
    found = run_checks(TriageCase(trace=trace))
    assert len(list(render_trace(trace))) >= len(trace.entries)
    if log != LOG and not LOG.startswith(log):
        assert found[0].check in ("damage", "crash")


@examples(50)
@given(st.text(max_size=30))
def test_trace_shows_nothing_that_a_terminal_would_obey(text: str) -> None:
    started = replace(STARTED, session=text, version=text, model=text, mode=text, workspace=text)
    call = ToolCall(id=text, name=text, input={"path": text})
    facts: list[Fact] = [started, asked(text), replied(Text(text=text), call), judged(call)]
    entries = [
        Entry(seq=seq, at=text, session=text, parent=None, fact=fact)
        for seq, fact in enumerate(facts, start=1)
    ]
    for runs in render_trace(build_trace(entries)):
        line = "".join(text for _, text in runs)
        assert line == show_controls(line)
        assert "\n" not in line
