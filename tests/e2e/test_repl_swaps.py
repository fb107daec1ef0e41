import base64
import json
from pathlib import Path

from tests.support.pictures import png
from tests.support.provider import Reply
from tests.support.repl import live
from tests.support.voices import Anthropic, Chat, Gemini, Interactions, Responses, Voice, choir

SHOT = png(30, 20)


def test_session_goes_around_all_protocols_and_back_by_slash_model(tmp_path: Path) -> None:
    first = Anthropic()
    legs: list[Voice] = [first, Responses(), Gemini(), Chat(), Interactions(), first]
    script: list[Reply] = []
    for leg, voice in enumerate(legs):
        calls = [("read_file", {"path": "a.py"}), ("read_file", {"path": "shot.png"})]
        script += [
            voice.says(2 * leg, f"Looking {leg}.", calls),
            voice.says(2 * leg + 1, f"Done {leg}.", []),
        ]
    with (
        choir(list(dict.fromkeys(legs)), script) as providers,
        live(tmp_path, [], files={"a.py": "1\n"}, env=providers.environ) as session,
    ):
        term = session.term
        (session.project / "shot.png").write_bytes(SHOT)
        term.ready()
        for leg, voice in enumerate(legs):
            if leg:
                term.send(f"/model {voice.model}")
                term.wait(voice.model.rpartition("/")[2])
            term.send(f"leg {leg} @shot.png")
            term.wait(f"Done {leg}.")
    assert providers.server.complaints == []
    bodies = [json.dumps(body) for body in providers.server.bodies]
    assert len(bodies) == 2 * len(legs)
    assert [body.count(base64.b64encode(SHOT).decode("ascii")) for body in bodies] == [
        count for leg in range(len(legs)) for count in (2 * leg + 1, 2 * leg + 2)
    ]
    assert all(first.vouched(number) in bodies[-1] for number in (0, 1, 10))
