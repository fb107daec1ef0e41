import json
from typing import Annotated

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter

from agentcli.record.log import as_json
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Ending,
    Fact,
    HookRan,
    ModelFailed,
    ModelReplied,
    SessionEnded,
    SessionStarted,
    Told,
    TurnEnded,
    TurnStarted,
    Warned,
)
from agentcli.types.messages import (
    AssistantMessage,
    Echo,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UserMessage,
)
from agentcli.types.tools import (
    Command,
    Diff,
    Effect,
    ErrorKind,
    FileView,
    Matches,
    Raw,
    ToolResult,
)
from agentcli.types.verdicts import Verdict

reader: TypeAdapter[Fact] = TypeAdapter(Annotated[Fact, Field(discriminator="type")])

words = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
numbers = st.integers(0, 10**9)
echoes = st.builds(Echo, protocol=words, model=words, data=json_values)
texts = st.builds(Text, text=words, echo=st.none() | echoes)
images = st.builds(Image, media_type=words, data=words)
calls = st.builds(
    ToolCall, id=words, name=words, input=json_values, caller=st.none() | words, echo=st.none()
)
blocks = st.one_of(
    texts, calls, st.builds(Thinking, text=words, echo=echoes), st.builds(Opaque, echo=echoes)
)
usages = st.builds(Usage, input_tokens=numbers, output_tokens=numbers)
assistants = st.builds(
    AssistantMessage,
    content=st.lists(blocks, max_size=3).map(tuple),
    stop=st.sampled_from(["end", "tool_calls", "length", "paused"]),
    protocol=words,
    model=words,
    usage=usages,
    stop_detail=words,
    echo=st.none() | echoes,
)
details = st.one_of(
    st.none(),
    st.builds(Raw, text=words),
    st.builds(
        Diff, path=words, unified=words, added=numbers, removed=numbers, notes=st.just(("n",))
    ),
    st.builds(Command, command=words, cwd=words, exit_code=st.none() | numbers),
    st.builds(FileView, path=words, media=st.sampled_from(["text", "image"]), size_bytes=numbers),
    st.builds(Matches, target=words, path=words, matches=numbers, files=numbers),
)
results = st.builds(
    ToolResult,
    call_id=words,
    name=words,
    status=st.sampled_from(["ok", "error"]),
    content=st.lists(st.one_of(texts, images), max_size=2).map(tuple),
    details=details,
    error=st.none() | st.sampled_from(ErrorKind),
    truncated=st.booleans(),
)
verdicts = st.builds(
    Verdict,
    decision=st.sampled_from(["allow", "modify", "ask", "deny"]),
    by=st.sampled_from(["mode", "rule", "hook", "evaluator", "person", "nobody"]),
    reason=words,
    rule=st.none() | words,
    input=json_values,
)
facts: st.SearchStrategy[Fact] = st.one_of(
    st.builds(
        SessionStarted,
        session=words,
        version=words,
        workspace=words,
        model=words,
        mode=words,
        tools=st.lists(words, max_size=2).map(tuple),
        tools_sha256=words,
    ),
    st.builds(
        TurnStarted,
        message=st.builds(UserMessage, content=st.lists(texts | images, max_size=2).map(tuple)),
    ),
    st.builds(Told, text=words, why=words),
    st.builds(Warned, code=words, message=words),
    st.builds(ModelReplied, message=assistants, cost_usd=st.none() | st.just(0.25)),
    st.builds(ModelFailed, kind=words, message=words, hint=words),
    st.builds(CallJudged, call=calls, effect=st.sampled_from(Effect), verdict=verdicts),
    st.builds(CallFinished, result=results, duration_s=st.just(0.5)),
    st.builds(
        HookRan, hook=words, call_id=words, decision=st.sampled_from(["observed", "rejected"])
    ),
    st.builds(TurnEnded, ending=st.sampled_from(Ending), message=words, hint=words),
    st.builds(SessionEnded, exit_code=st.integers(0, 255)),
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(facts)
def test_every_fact_survives_the_log(fact: Fact) -> None:
    text = json.dumps(as_json(fact), ensure_ascii=False)
    assert reader.validate_python(json.loads(text)) == fact
