import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given
from hypothesis import strategies as st

from agentcli.permissions.shell import OpaqueLine, PlainLine, parse_line
from tests.support.examples import examples

# Programs that do not exist: bash hands each of them, with its words, to this function. The line
# runs twice, first with every command succeeding and then with none: both sides of && are reached.
_SCRIPT = r"""
command_not_found_handle() { printf '%s\0' "$@" $'\001' >&9; return $STATUS; }
STATUS=0; eval "$LINE"
printf '\002\0\001\0' >&9
STATUS=1; eval "$LINE"
"""

_PIECES = st.sampled_from(
    [
        *[
            "zqa",
            "zqb",
            "zq.c",
            "CI=1 ",
            "LC_ALL='C' ",
            '"a\\.b"',
            '"\\\\"',
            '"\\"',
            '"\\""',
            " # zqa",
            "# '",
            "-x",
            "--y=1",
            "a b",
            "''",
            '""',
            "'a b'",
            '"a  b"',
            "HEAD~1",
            "x~",
        ],
        *[" ", "  ", "\t", "\n", ";", " ; ", " && ", " || ", " | ", "&", "|", "&&", ";;", "|&"],
        *[
            "$x",
            "$(zqa)",
            "`zqa`",
            "$'a'",
            '"$x"',
            '"$"',
            '"a$|b$)"',
            '"$/ $ "',
            "\\",
            "\\\n",
            "~",
            "~/x",
            "=",
            "a=b",
            "a=~",
            ":~",
        ],
        *[">", "2>&1", " 2>&1", " >/dev/null", " 2>/dev/null ", " &>/dev/null", ">|", "<", "<<E"],
        *[
            "{a,b}",
            "{",
            "}",
            "(",
            ")",
            "!",
            "#",
            "a#b",
            "#c",
            "[",
            "]",
            "*",
            "?",
            "é",
            "日本",
            "\u00a0",
        ],
        *[
            "if",
            "then",
            "time ",
            "for",
            "'",
            '"',
            "%1",
            "^",
            "@",
            "+",
            ",",
            ":",
            "\r",
            "1",
            "2",
            "'!'",
        ],
    ]
)
LINES = st.one_of(
    st.lists(_PIECES, min_size=1, max_size=9).map("".join),
    st.lists(_PIECES, min_size=1, max_size=6).map(lambda pieces: "zqa " + "".join(pieces)),
    st.text(alphabet="zq aA0-=~#'\"\\$`;&|<>(){}[]*?!\n\t./,:%^é", min_size=1, max_size=14),
)


def _run_by_bash(line: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The commands that ran, each as its words, first of the one run and then of the other."""
    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryFile() as seen:
        os.set_inheritable(seen.fileno(), True)
        subprocess.run(
            ["/bin/bash", "-c", f"exec 9>&{seen.fileno()}{_SCRIPT}"],
            cwd=empty,
            env={"PATH": "/nonexistent", "LINE": line, "LC_ALL": "C.UTF-8", "HOME": "/home/zq"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            timeout=20,
            check=False,
        )
        seen.seek(0)
        records = seen.read().decode("utf-8").split("\0\x01\0")
    ran = [tuple(record.split("\0")) for record in records if record]
    border = ran.index(("\x02",))
    return sorted(ran[:border]), sorted(ran[border + 1 :])


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="needs /bin/bash")
@examples(150, suppress_health_check=list(HealthCheck))
@given(LINES)
@example("zqa HEAD~1 x~ && zqb 'a b'\"c\"; zqc 2>&1 | zqd >/dev/null\n\nzqe a#b")
@example("zqa a=b~c --x=~y zq^~ ~")
@example("zqa 2>&1 &>/dev/null x </dev/null")
def test_plain_lines_run_exactly_the_parsed_words_in_bash(line: str) -> None:
    parsed = parse_line(line)
    assume(isinstance(parsed, PlainLine))
    assert isinstance(parsed, PlainLine)
    programs = [part.program for part in parsed.parts]
    assume(all(name.startswith("zq") and "/" not in name for name in programs))
    # A command whose input is a file that is not there does not run.
    assume("<" not in line.replace("</dev/null", ""))

    succeeding, failing = _run_by_bash(line)

    expected = sorted(part.argv for part in parsed.parts)
    assert set(succeeding) | set(failing) == set(expected)
    if "&&" not in line and "||" not in line:
        assert (succeeding, failing) == (expected, expected)


@examples(300)
@given(st.text(max_size=40))
def test_parser_answers_any_text(line: str) -> None:
    assert isinstance(parse_line(line), PlainLine | OpaqueLine)


@examples(200)
@given(LINES)
def test_plain_parts_stand_in_the_line_and_parse_to_themselves(line: str) -> None:
    parsed = parse_line(line)
    for part in parsed.parts if isinstance(parsed, PlainLine) else ():
        assert part.source in line
        assert parse_line(part.source) == PlainLine((part,))
