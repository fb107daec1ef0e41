import pytest

from agentcli.ui.repl.background import Answer, understood


@pytest.mark.parametrize(
    ("received", "answer"),
    [
        (b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62;c", Answer(colour=(255, 255, 255))),
        (b"\x1b]11;rgb:18/18/1a\x07\x1b[?6c", Answer(colour=(24, 24, 26))),
        (b"ls\x1b[?6c -l", Answer(typed="ls -l")),
        (b"\x1b]11;rgb:zz\x07", Answer(typed="\x1b]11;rgb:zz\x07")),
        (b"", Answer()),
    ],
)
def test_answer_of_a_terminal_is_understood(received: bytes, answer: Answer) -> None:
    assert understood(received) == answer
