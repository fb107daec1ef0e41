import pytest

from agentcli.permissions.shell import OpaqueLine, PlainLine, ShellPart, ShellWord, parse_line


def _argvs(line: str) -> list[tuple[str, ...]]:
    parsed = parse_line(line)
    assert isinstance(parsed, PlainLine), parsed
    return [part.argv for part in parsed.parts]


@pytest.mark.parametrize(
    ("line", "argvs"),
    [
        ("ls", [("ls",)]),
        ("  ls\t-la  ", [("ls", "-la")]),
        ("echo 'a  b' \"c d\" ''", [("echo", "a  b", "c d", "")]),
        ("echo a'b'\"c\"d", [("echo", "abcd")]),
        ("echo '$x `y` \\ !'", [("echo", "$x `y` \\ !")]),
        ('grep -E "^(a|b$)$" x', [("grep", "-E", "^(a|b$)$", "x")]),
        ("echo 'two\nlines'", [("echo", "two\nlines")]),
        ("a; b && c || d | e", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("a\nb\n\n c ;\n", [("a",), ("b",), ("c",)]),
        ("a &&\n b |\n c", [("a",), ("b",), ("c",)]),
        ("a 2>&1 | b >/dev/null 2>/dev/null", [("a",), ("b",)]),
        ("a &>/dev/null && b > /dev/null </dev/null", [("a",), ("b",)]),
        ("echo x >&2", [("echo", "x")]),
        ("git diff HEAD~1 HEAD^^ v1~2", [("git", "diff", "HEAD~1", "HEAD^^", "v1~2")]),
        ("grep é 日本 a#b", [("grep", "é", "日本", "a#b")]),
        ("[ -f x ]", [("[", "-f", "x", "]")]),
        (r'rg "foo\(" x', [("rg", r"foo\(", "x")]),
        (r'grep "a\.b\\c\"d\$e"', [("grep", r'a\.b\c"d$e')]),
        ("grep '\\(a\\)'\"\\d\"", [("grep", r"\(a\)\d")]),
        ("ls # list; rm x", [("ls",)]),
        ("# it's a list\nls -l\n  # and\n# more \\\nwc x # end", [("ls", "-l"), ("wc", "x")]),
        ("ls ; # one", [("ls",)]),
        ("CI=1 LC_ALL=C.UTF-8 TERM='dumb' npm test", [("npm", "test")]),
        ("ls && NO_COLOR= npm test", [("ls",), ("npm", "test")]),
    ],
)
def test_plain_line_gives_its_words(line: str, argvs: list[tuple[str, ...]]) -> None:
    assert _argvs(line) == argvs


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "empty command"),
        ("ls $(x)", "command substitution $(…)"),
        ("ls `x`", "command substitution `…`"),
        ('ls "a $(x)"', "command substitution $(…)"),
        ("ls $((1))", "arithmetic $((…))"),
        ("ls ${x}", "variable ${…}"),
        ("ls $x", "variable $…"),
        ("ls $'a'", "quoting with $'…'"),
        ("ls a\\ b", "backslash"),
        ("ls \\\n-l", "line continuation"),
        ("ls > x", "redirection >"),
        ("ls 2>x", "redirection >"),
        ("ls >/dev/nullx", "redirection >"),
        ("ls 2>&1x", "redirection >"),
        ("ls2>&1", "redirection >"),
        ("cat < /dev/tcp/x/1", "redirection <"),
        ("cat << x", "here-document <<"),
        ("cat <<< x", "here-string <<<"),
        ("cat <(x)", "process substitution <(…)"),
        ("(ls)", "subshell or function (…)"),
        ("f() { ls; }", "subshell or function (…)"),
        ("ls {a,b}", "braces {…}"),
        ("ls &", "background &"),
        ("ls |& wc", "pipe of both streams |&"),
        ("ls ;; ls", "case branch ;;"),
        ("! ls", "history or negation !"),
        ('echo "a!"', "history or negation !"),
        ("ls ~/x", "home directory ~"),
        ("ls a=~", "home directory ~"),
        ("ls;# x", "comment #"),
        ("# x", "empty command"),
        ("ls && # x", "&& without a command after it"),
        ("ls && # x\nwc", " without a command before it"),
        ('ls "a\\!"', "backslash"),
        ('ls "a\\\nb"', "line continuation"),
        ('ls "a\\$(x)" $(y)', "command substitution $(…)"),
        ('ls "a\\\\$(x)"', "command substitution $(…)"),
        ("CI=1", "assignment NAME=…"),
        ("LC_ALL=./x ls", "assignment NAME=…"),
        ("CI=1 LD_PRELOAD=x ls", "assignment NAME=…"),
        ("CI+=1 ls", "assignment NAME=…"),
        ("'CI'=1 ls", "assignment NAME=…"),
        ("ls 'a", "quote that is not closed"),
        ('ls "a', "quote that is not closed"),
        ("A=1 ls", "assignment NAME=…"),
        ("if ls", "keyword if"),
        ("[[ a ]]", "keyword [["),
        ("time ls", "keyword time"),
        ("'ls'", "unusual program name"),
        ("l*", "unusual program name"),
        ("2>/dev/null ls", "redirection >"),
        ("ls; >/dev/null", "redirection before the command"),
        ("ls &&", "&& without a command after it"),
        ("&& ls", "&& without a command before it"),
        ("ls\u00a0x", "blank U+00A0"),
        ("ls \u200bx", "control character U+200B"),
        ("ls 'a\u202eb'", "control character U+202E"),
        ("ls\rx", "control character U+000D"),
        ("ls\x1bx", "control character U+001B"),
        ("ls \ud800", "control character U+D800"),
    ],
)
def test_other_line_is_refused_with_the_reason(line: str, reason: str) -> None:
    assert parse_line(line) == OpaqueLine(reason)


def test_globs_are_marked_and_quoted_ones_are_not() -> None:
    parsed = parse_line("ls *.py src/[ab].py 'x*' \"y\"? [ ]")

    assert parsed == PlainLine(
        (
            ShellPart(
                words=(
                    ShellWord("ls"),
                    ShellWord("*.py", is_glob=True),
                    ShellWord("src/[ab].py", is_glob=True),
                    ShellWord("x*"),
                    ShellWord("y?", is_glob=True),
                    ShellWord("["),
                    ShellWord("]"),
                ),
                argv=("ls", "*.py", "src/[ab].py", "x*", "y?", "[", "]"),
                program="ls",
                source="ls *.py src/[ab].py 'x*' \"y\"? [ ]",
            ),
        )
    )


def test_long_lines_are_read_to_the_end() -> None:
    assert len(_argvs("; ".join(["ls"] * 20_000))) == 20_000
    assert _argvs("echo '" + "x" * 1_000_000 + "'")[0][1] == "x" * 1_000_000
    assert _argvs("echo " + "x" * 1_000_000)[0][1] == "x" * 1_000_000
