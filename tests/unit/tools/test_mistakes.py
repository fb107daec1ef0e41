"""Mistakes that models make with the tools, and the words that let them act at once."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.mistakes import answer_to
from tests.support.searching import ENGINES

PARSER = "src/app/parser.py"

SEARCH = "<<<<<<< SEARCH\nimport os\n=======\nimport sys\n>>>>>>> REPLACE"
TWICE = [{"old_text": "import os", "new_text": new} for new in ("import re", "import io")]
HEREDOC = """cat <<'EOF' | apply_patch
*** Begin Patch
*** Update File: README.md
@@
-# Title
+# Other title
*** End Patch
EOF
"""
PLAIN_PATCH = """*** Begin Patch
*** Update File: README.md
@@
-Some "quoted" text - with dashes...
+Some text
*** End Patch"""
ELIDED = "import sys\n# ... rest of the file unchanged ..."

MISTAKES: list[tuple[str, Any, str]] = [
    ("read_file", {"path": "src/app/Parser.py"}, "Did you mean src/app/parser.py?"),
    ("read_file", {"path": "parser.py"}, "Did you mean src/app/parser.py?"),
    ("read_file", {"path": "src/parser.py"}, "Did you mean src/app/parser.py?"),
    ("read_file", {"path": "/src/app/parser.py"}, "Did you mean src/app/parser.py?"),
    ("read_file", {"path": "`src/app/parser.py`"}, "Did you mean src/app/parser.py?"),
    ("read_file", {"path": "src\\app\\parser.py"}, "Did you mean src/app/parser.py?"),
    ("read_file", {"path": "a/src/app/parser.py"}, "Did you mean src/app/parser.py?"),
    ("read_file", {"path": "src/app/parser.py:12"}, "Did you mean src/app/parser.py?"),
    ("read_file", {"path": "src/app/*.py"}, "no wildcards: give them as glob"),
    ("read_file", {"path": "/etc/passwd"}, "Tools reach only the workspace"),
    ("read_file", {"path": "src/app"}, "parser.py"),
    ("read_file", {"path": "data.bin"}, "use bash with file, strings or xxd"),
    ("read_file", {"path": "logo.png"}, "does not take images. Tell the user"),
    ("read_file", {"path": "manual.pdf"}, "use bash with pdftotext"),
    ("read_file", {"path": "long.txt", "offset": 5000}, "has 3000 lines; offset 5000 is past"),
    ("read_file", {"path": "long.txt"}, "continue with offset=2001"),
    ("read_file", {"path": "long.txt", "limit": 0}, "limit must be greater than or equal to 1"),
    ("read_file", {"path": "empty.txt"}, "[empty file]"),
    ("read_file", {"path": "pipe"}, "is a named pipe (FIFO), not a regular file"),
    ("read_file", {"path": "wide.json"}, "characters]"),
    ("read_file", {}, "path is missing (e.g. src/app.py)"),
    ("read_file", {"path": ["a"]}, "path must be a valid string"),
    ("read_file", {"paths": ["a"]}, "Did you mean path?"),
    ("read_file", {"path": PARSER, "start": 3, "end": 5}, "give limit, the number of lines"),
    ("read_file", '{"path": ', "not valid JSON"),
    ("write_file", {"path": PARSER, "content": "x"}, "Read it first, or use edit_file"),
    ("write_file", {"path": "src/app", "content": "x"}, "is a directory, not a regular file"),
    ("write_file", {"path": "new/", "content": "x"}, "names a directory, not a file"),
    ("write_file", {"path": ".git/config", "content": "x"}, "is protected"),
    ("write_file", {"path": "a.json", "content": {"a": 1}}, "content must be a valid string"),
    ("write_file", {"path": "a.txt"}, "content is missing"),
    ("write_file", {"path": "data.bin", "content": "x"}, "Change it with bash"),
    ("edit_file", {"path": PARSER, "old_text": "", "new_text": "x"}, "use write_file"),
    ("edit_file", {"path": PARSER, "old_text": "result", "new_text": "x"}, "(lines 6, 8, 9)"),
    ("edit_file", {"path": PARSER, "old_text": "a", "new_text": "a"}, "are the same"),
    ("edit_file", {"path": PARSER, "old_text": "result = list()", "new_text": "x"}, "line 6:"),
    ("edit_file", {"path": PARSER, "old_text": "zebra", "new_text": "x"}, "grep for a few words"),
    ("edit_file", {"path": PARSER, "new_text": "x"}, "old_text is missing"),
    ("edit_file", {"path": PARSER, "edits": "x"}, "edits must be an array"),
    ("edit_file", {"path": PARSER, "lines": "2-3", "new_text": "x"}, "Look at the lines first"),
    ("edit_file", {"path": "latin.txt", "old_text": "café", "new_text": "☕"}, "windows-1252"),
    ("edit_file", {"path": "data.bin", "old_text": "a", "new_text": "b"}, "Change it with bash"),
    ("edit_file", {"path": "zebra", "old_text": "a", "new_text": "b"}, "write_file creates files"),
    ("edit_file", {"path": PARSER, "diff": "@@"}, "there is no field diff. The fields are path"),
    ("grep", {"pattern": "def (parse"}, "use literal=true"),
    ("grep", {"pattern": "*parse"}, "use literal=true"),
    ("grep", {"pattern": r"\(parse\|load\)"}, "(parse|load) does match"),
    ("grep", {"pattern": "(?<=def )parse"}, "use grep -P in bash"),
    ("grep", {"pattern": "PARSER"}, "use ignore_case=true"),
    ("grep", {"pattern": "parse", "glob": "*.rs"}, "no file there matches the glob"),
    ("grep", {"pattern": "parse", "path": "src/*.py"}, "give them as glob"),
    ("grep", {"pattern": ""}, "pattern must not be empty"),
    ("grep", {"pattern": "x", "output_mode": "all"}, "must be 'content', 'files' or 'count'"),
    ("find_files", {"glob": "Parser.py"}, "did you mean src/app/parser.py?"),
    ("find_files", {"glob": "src"}, "It is a directory: use src/**"),
    ("find_files", {"glob": "../x"}, "set path instead"),
    ("find_files", {"glob": "secret_word.txt"}, "is ignored: set path to its directory"),
    ("find_files", {"glob": "[a"}, "write \\[ for the character"),
    ("bash", {"command": "nosuchprogram"}, "command not found"),
    ("bash", {"command": "sleep 5", "timeout": 1}, "raise timeout or use background=true"),
    ("bash", {"command": "ls", "timeout": 60000}, "(Seconds, e.g. 300"),
    ("bash", {"command": ["ls"]}, "command must be a valid string"),
    ("bash", {"command": "  "}, "command is blank"),
    ("bash", {"command": "ls", "cwd": "src"}, "begin the command with cd DIR &&"),
    ("bash", {"command": "ls", "description": "list files"}, "[exit code 0]"),
    ("bash", {"command": "vim a"}, "Use edit_file"),
    ("bash", {"command": "seq 1 100000"}, "left out"),
    ("bash", {"command": "false | cat"}, "in the pipe: false 1, cat 0"),
    ("Read", {"path": PARSER}, "Did you mean read_file?"),
    ("run_shell", {"command": "ls"}, "Did you mean bash?"),
    ("apply_patch", {"patch": "--- a/x\n+++ b/x\n"}, "git apply in bash"),
    ("apply_patch", {"patch": ""}, "It begins with"),
    ("read_file", {"path": PARSER, "view_range": [1, 3]}, "give offset, the first line, and"),
    ("read_file", {"path": PARSER, "line_range": "1-3"}, "give offset, the first line, and"),
    ("read_file", {"path": "https://example.org/x"}, "It is a web address"),
    ("read_file", {"path": f"{PARSER}#L3-L5"}, f"Did you mean {PARSER}? Lines are chosen by"),
    ("read_file", {"path": "app.parser"}, f"Did you mean {PARSER}?"),
    ("read_file", {"path": "dead"}, "It is a link to nowhere, which does not exist"),
    ("read_file", {"path": f"{PARSER} README.md"}, "Give one path in each call"),
    ("read_file", {"path": f"{PARSER}, README.md"}, "Give one path in each call"),
    ("write_file", {"path": "a", "content": "x", "append": True}, "to add to it use edit_file"),
    ("write_file", {"path": "a", "content": "x", "mode": "a"}, "to add to it use edit_file"),
    ("write_file", {"path": "/etc/a.py", "content": "x"}, "for other files use bash"),
    ("write_file", {"path": "README.md/x", "content": "x"}, "its directory is a file"),
    ("edit_file", {"path": PARSER, "old_text": "import os", "new_text": None}, '"" to delete'),
    ("edit_file", {"path": PARSER, "old_text": SEARCH, "new_text": ""}, "between the markers"),
    (
        "edit_file",
        {"path": PARSER, "old_text": r"def \w+\(self", "new_text": "x"},
        "not as a regular",
    ),
    ("edit_file", {"path": "empty.txt", "old_text": "a", "new_text": "b"}, "write_file fills it"),
    ("edit_file", {"path": PARSER, "edits": TWICE}, "an edit before it changed its old_text"),
    ("edit_file", {"path": PARSER, "lines": "5-2", "new_text": "x"}, "the larger one"),
    ("edit_file", {"path": PARSER, "old_text": "import os", "new_text": ELIDED}, "give all lines"),
    ("grep", {"pattern": "/parse/i"}, "give parse, and ignore_case=true"),
    ("grep", {"pattern": "grep -rn parse src"}, "Give the pattern alone"),
    ("grep", {"pattern": "parse", "glob": "py"}, "is written *.py"),
    ("grep", {"pattern": "parse", "glob": ".py"}, "is written *.py"),
    ("grep", {"pattern": "parse", "type": "python"}, "give a glob, e.g. *.py"),
    ("grep", {"pattern": "parse", "output_mode": "files_with_matches"}, PARSER),
    ("find_files", {"glob": r".*\.py$"}, "a glob, not a regular expression"),
    ("find_files", {"glob": "*.py *.md"}, "several are written *.{py,md}"),
    ("find_files", {"glob": "find . -name '*.py'"}, "It is one glob"),
    ("find_files", {"glob": "parser"}, "is written *parser*"),
    ("find_files", {"glob": "~/*.py"}, "~ is not expanded"),
    ("bash", {"script": "ls"}, "[exit code 0]"),
    ("bash", {"command": "ls", "env": {"A": "1"}}, "begin the command with NAME=VALUE"),
    ("bash", {"command": "$ ls"}, "Send what follows it alone"),
    ("bash", {"command": "```bash\nls\n```"}, "Send the lines between ``` alone"),
    ("read_file", {"path": r"a\ b/c\ d.txt"}, "Did you mean a b/c d.txt?"),
    ("read_file", {"path": "file:///srv/x"}, "Give the path alone, without file://"),
    ("read_file", {"path": "$ROOT/x.py"}, "Variables are not expanded in paths"),
    ("read_file", {"path": "node_modules/x/index.js"}, "There is no directory node_modules."),
    ("read_file", {"path": "src/nowhere/index.js"}, "There is no directory src/nowhere."),
    ("read_file", {"path": "a.zip"}, "use bash with unzip -l"),
    ("read_file", {"path": "a.sqlite"}, "use bash with python3 and its module sqlite3"),
    ("read_file", {"path": "wide.json"}, "sed -n 1p FILE | cut -c2001- in bash"),
    ("read_file", {"path": PARSER, "encoding": "utf-8"}, "import os"),
    ("edit_file", {"path": "wide.json", "old_text": "xx", "new_text": "y"}, "Add more of the line"),
    ("edit_file", {"path": PARSER, "insert_line": 3, "new_text": "x"}, "both lines as new_text"),
    ("edit_file", {"path": PARSER, "command": "x"}, "this tool replaces text, and needs none"),
    ("edit_file", {"path": PARSER, "old_text": "Import OS", "new_text": "x"}, "line 1:"),
    (
        "edit_file",
        {"path": PARSER, "old_text": "result = []\n        return result", "new_text": "x"},
        "[old_text leaves out 2 lines of the file, from line 7]",
    ),
    (
        "edit_file",
        {"path": "crlf.txt", "old_text": r"one\r\ntwo", "new_text": r"1\r\n2"},
        "send the newlines themselves",
    ),
    ("grep", {"pattern": "'parse'"}, "Quotes count as text: parse does match"),
    ("grep", {"pattern": "^result = "}, r"^\s*result =  does match"),
    ("grep", {"pattern": '"quoted" text'}, "The quotes there are typographic"),
    ("grep", {"pattern": "parse", "-n": True}, "5:"),
    ("find_files", {"glob": "src/*.py"}, "There are some deeper: use src/**/*.py."),
    ("find_files", {"glob": "*.py|*.md"}, "several are written *.{py,md}"),
    ("find_files", {"glob": "*.py,*.md"}, "several are written *.{py,md}"),
    ("find_files", {"glob": "node_modules/**/x.js"}, "There is no directory node_modules."),
    ("bash", {"command": "./tool.sh"}, "./tool.sh is not executable: run it with its interpreter"),
    ("bash", {"command": "./windows.sh"}, "or the line ends with CRLF"),
    ("bash", {"command": "./lost.py"}, "names is not there"),
    ("bash", {"command": "export A=1"}, "put it before the next one, with &&"),
    ("TodoWrite", {"todos": []}, "Keep a plan in your own text"),
    ("multi_tool_use.parallel", {}, "several in one reply"),
    ("delete_file", {"path": "x"}, "bash does that, with rm"),
    ("local_shell", {"command": "ls"}, "Did you mean bash?"),
    ("str_replace_based_edit_tool", {}, "Did you mean edit_file?"),
    ("apply_patch", {"patch": HEREDOC}, "Patch applied: edited README.md"),
    ("apply_patch", {"patch": PLAIN_PATCH}, "Patch applied: edited README.md"),
]


@pytest.mark.skipif(not ENGINES, reason="no ripgrep here")
@pytest.mark.parametrize(("tool", "arguments", "words"), MISTAKES)
def test_a_mistake_is_answered_with_what_to_do(
    tool: str, arguments: Any, words: str, tmp_path: Path
) -> None:
    assert words in answer_to(tmp_path, (tool, arguments))


@pytest.mark.parametrize("name", ["todo_write", "web_search", "think", "submit"])
def test_a_tool_like_none_of_ours_gets_no_silly_guess(name: str, tmp_path: Path) -> None:
    told = answer_to(tmp_path, (name, {}))
    assert "Did you mean" not in told and "The tools are read_file" in told


def test_file_is_not_replaced_by_one_that_leaves_lines_out(tmp_path: Path) -> None:
    read = ("read_file", {"path": PARSER})
    told = answer_to(tmp_path, read, ("write_file", {"path": PARSER, "content": ELIDED}))
    assert "leaves out lines of src/app/parser.py, and they would be lost" in told
    assert "class Parser" in (tmp_path / "project" / PARSER).read_text()


@pytest.mark.parametrize("line", ["# the same as before", "x = ...", "# ...", "# rest of it"])
def test_line_that_stands_for_nothing_is_written(line: str, tmp_path: Path) -> None:
    read = ("read_file", {"path": PARSER})
    told = answer_to(tmp_path, read, ("write_file", {"path": PARSER, "content": line}))
    assert told.startswith("Wrote src/app/parser.py")
