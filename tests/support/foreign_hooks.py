"""Hooks of the shapes that public ones have, each with calls it must stop and calls it must not.

They test the names of other agents (`Bash`, `file_path`, `mcp__SERVER__TOOL`) and know nothing of
ours; the first few test ours and nothing else.
"""

from dataclasses import dataclass, field
from typing import Any

Call = dict[str, dict[str, Any]]

PYTHON = "#!/usr/bin/env python3\nimport json, os, re, sys\ndata = json.load(sys.stdin)\n"
BASH = "#!/usr/bin/env bash\ninput=$(cat)\n"

REMOVE: Call = {"bash": {"command": "rm -rf build"}}
LIST: Call = {"bash": {"command": "ls"}}
WRITE: Call = {"write_file": {"path": "new.txt", "content": "x"}}
WRITE_ENV: Call = {"write_file": {"path": ".env", "content": "x"}}
EDIT: Call = {"edit_file": {"path": "a.txt", "old_text": "one", "new_text": "1"}}
READ: Call = {"read_file": {"path": "a.txt"}}
READ_ENV: Call = {"read_file": {"path": ".env"}}
GREP: Call = {"grep": {"pattern": "one"}}
GLOB: Call = {"find_files": {"glob": "*.txt"}}
LOOK: Call = {"shelf__look": {}}
PUT: Call = {"shelf__put": {"what": "x"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignHook:
    name: str
    program: str
    matcher: str | None = ""
    """None: the key is not there."""
    stops: tuple[Call, ...] = ()
    passes: tuple[Call, ...] = ()
    needs: tuple[str, ...] = field(default=("python3",))
    """Programs that it calls."""


BEFORE = (
    ForeignHook(
        name="rm-blocker-with-our-names",
        program=PYTHON
        + 'if data["tool_name"] == "bash" and "rm -rf" in data["tool_input"]["command"]:\n'
        + "    sys.exit(2)\n",
        stops=(REMOVE,),
        passes=(LIST, READ),
    ),
    ForeignHook(
        name="rm-blocker-with-our-names-in-bash",
        matcher="*",
        program=BASH
        + '[ "$(jq -r .tool_name <<<"$input")" = bash ] || exit 0\n'
        + 'jq -r .tool_input.command <<<"$input" | grep -q "rm -rf" && exit 2\nexit 0\n',
        stops=(REMOVE,),
        passes=(LIST, READ),
        needs=("bash", "jq"),
    ),
    ForeignHook(
        name="guard-of-files-with-our-names",
        matcher=None,
        program=PYTHON
        + 'if data["tool_name"] in ("read_file", "write_file"):\n'
        + '    sys.exit(2 if data["tool_input"]["path"].endswith(".env") else 0)\n',
        stops=(READ_ENV, WRITE_ENV),
        passes=(READ, WRITE, LIST),
    ),
    ForeignHook(
        name="rm-blocker-in-python",
        program=PYTHON
        + 'if data.get("tool_name") != "Bash":\n    sys.exit(0)\n'
        + 'if re.search(r"\\brm\\s+-rf\\b", data["tool_input"].get("command", "")):\n'
        + '    print("rm -rf is blocked", file=sys.stderr)\n    sys.exit(2)\n',
        stops=(REMOVE,),
        passes=(LIST, READ),
    ),
    ForeignHook(
        name="rm-blocker-with-jq",
        matcher="*",
        program=BASH
        + 'tool=$(jq -r .tool_name <<<"$input")\n[ "$tool" = Bash ] || exit 0\n'
        + 'jq -r .tool_input.command <<<"$input" | grep -q "rm -rf" || exit 0\n'
        + "echo 'no rm -rf' >&2\nexit 2\n",
        stops=(REMOVE,),
        passes=(LIST, READ),
        needs=("bash", "jq"),
    ),
    ForeignHook(
        name="rm-blocker-without-matcher",
        matcher=None,
        program=PYTHON
        + 'ti = data["tool_input"] if data["tool_name"] == "Bash" else {}\n'
        + 'sys.exit(2 if "rm -rf" in ti.get("command", "") else 0)\n',
        stops=(REMOVE,),
        passes=(LIST, WRITE),
    ),
    ForeignHook(
        name="rm-blocker-with-anchors",
        matcher="^Bash$",
        program=PYTHON + 'sys.exit(2 if "rm " in data["tool_input"]["command"] else 0)\n',
        stops=(REMOVE,),
        passes=(LIST, WRITE),
    ),
    ForeignHook(
        name="force-push-blocker-by-permission",
        matcher="Bash",
        program=PYTHON
        + 'if "push --force" in data["tool_input"]["command"]:\n'
        + '    print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse",\n'
        + '        "permissionDecision": "deny", "permissionDecisionReason": "no force"}}))\n',
        stops=({"bash": {"command": "git push --force"}},),
        passes=(LIST,),
    ),
    ForeignHook(
        name="blocker-in-the-older-words",
        matcher="Bash",
        program=PYTHON
        + 'if "sudo" in data["tool_input"]["command"]:\n'
        + '    print(json.dumps({"decision": "block", "reason": "no sudo"}))\n'
        + 'else:\n    print(json.dumps({"decision": "approve", "suppressOutput": True}))\n',
        stops=({"bash": {"command": "sudo ls"}},),
        passes=(LIST,),
    ),
    ForeignHook(
        name="blocker-that-says-not-to-continue",
        matcher="Bash",
        program=PYTHON
        + 'if "curl" in data["tool_input"]["command"]:\n'
        + '    print(json.dumps({"continue": False, "stopReason": "no network"}))\n',
        stops=({"bash": {"command": "curl example.com"}},),
        passes=(LIST,),
    ),
    ForeignHook(
        name="asker-where-nobody-can-be-asked",
        matcher="Bash",
        program=PYTHON
        + 'if "deploy" in data["tool_input"]["command"]:\n'
        + '    print(json.dumps({"hookSpecificOutput": {"permissionDecision": "ask"}}))\n',
        stops=({"bash": {"command": "./deploy"}},),
        passes=(LIST,),
    ),
    ForeignHook(
        name="long-timeout-blocker",
        matcher="Bash",
        program=PYTHON + 'sys.exit(2 if data["tool_input"].get("timeout", 0) > 60000 else 0)\n',
        stops=({"bash": {"command": "ls", "timeout": 61}},),
        passes=({"bash": {"command": "ls", "timeout": 60}}, LIST),
    ),
    ForeignHook(
        name="background-blocker",
        matcher="Bash",
        program=PYTHON + 'sys.exit(2 if data["tool_input"].get("run_in_background") else 0)\n',
        stops=({"bash": {"command": "ls", "background": True}},),
        passes=(LIST,),
    ),
    ForeignHook(
        name="file-protector",
        matcher="Edit|MultiEdit|Write",
        program=PYTHON
        + 'path = data.get("tool_input", {}).get("file_path", "")\n'
        + 'sys.exit(2 if any(p in path for p in (".env", "lock.json", ".git/")) else 0)\n',
        stops=(WRITE_ENV, {"write_file": {"file_path": "package-lock.json", "content": ""}}),
        passes=(WRITE, EDIT),
    ),
    ForeignHook(
        name="file-protector-with-a-comma",
        matcher="Edit, Write",
        program=PYTHON + 'sys.exit(2 * data["tool_input"]["file_path"].endswith(".env"))\n',
        stops=(WRITE_ENV,),
        passes=(WRITE, READ_ENV),
    ),
    ForeignHook(
        name="file-protector-without-anchors",
        matcher="(Edit|Write).*",
        program=PYTHON + 'sys.exit(2 * data["tool_input"]["file_path"].endswith(".env"))\n',
        stops=(WRITE_ENV,),
        passes=(WRITE, EDIT),
    ),
    ForeignHook(
        name="env-guard-of-reads-and-edits",
        matcher="Read|Edit|Write|Bash",
        program=PYTHON
        + 'tool, given = data["tool_name"], data["tool_input"]\n'
        + 'if tool in ("Read", "Edit", "Write") and given["file_path"].endswith("/.env"):\n'
        + '    sys.exit(2)\nif tool == "Bash" and ".env" in given["command"]:\n    sys.exit(2)\n',
        stops=(READ_ENV, WRITE_ENV, {"bash": {"command": "cat .env"}}),
        passes=(READ, WRITE, LIST),
    ),
    ForeignHook(
        name="project-border-by-the-environment",
        matcher="Write",
        program=PYTHON
        + 'root = os.environ["CLAUDE_PROJECT_DIR"]\n'
        + 'path = os.path.relpath(data["tool_input"]["file_path"], root)\n'
        + 'sys.exit(2 if path.startswith((".." + os.sep, "generated")) else 0)\n',
        stops=({"write_file": {"path": "src/../generated/x", "content": ""}},),
        passes=(WRITE,),
    ),
    ForeignHook(
        name="secret-scanner",
        matcher="Write|Edit|MultiEdit",
        program=PYTHON
        + 'given = data["tool_input"]\n'
        + 'text = given.get("content", "") + given.get("new_string", "")\n'
        + 'text += "".join(e.get("new_string", "") for e in given.get("edits", []))\n'
        + 'sys.exit(2 if "BEGIN PRIVATE" in text else 0)\n',
        stops=(
            {"write_file": {"path": "k", "content": "BEGIN PRIVATE"}},
            {"edit_file": {"path": "a.txt", "old_text": "one", "new_text": "BEGIN PRIVATE"}},
        ),
        passes=(WRITE, EDIT),
    ),
    ForeignHook(
        name="replace-all-blocker",
        matcher="Edit",
        program=PYTHON + 'sys.exit(2 if data["tool_input"].get("replace_all") else 0)\n',
        stops=(
            {
                "edit_file": {
                    "path": "a.txt",
                    "old_text": "one",
                    "new_text": "1",
                    "replace_all": True,
                }
            },
        ),
        passes=(EDIT,),
    ),
    ForeignHook(
        name="search-guard",
        matcher="Grep|Glob",
        program=PYTHON
        + 'given = data["tool_input"]\n'
        + 'if data["tool_name"] == "Glob" and given["pattern"].startswith("**/secret"):\n'
        + "    sys.exit(2)\n"
        + 'if data["tool_name"] == "Grep" and given.get("path", "").endswith("/private"):\n'
        + "    sys.exit(2)\n",
        stops=(
            {"find_files": {"glob": "**/secret*"}},
            {"grep": {"pattern": "x", "path": "private"}},
        ),
        passes=(GREP, GLOB),
    ),
    ForeignHook(
        name="server-blocker",
        matcher="mcp__shelf__.*",
        program=PYTHON
        + 'print("no server tools: " + data["tool_name"], file=sys.stderr)\n'
        + 'sys.exit(2 if data["tool_name"].startswith("mcp__shelf__") else 0)\n',
        stops=(LOOK, PUT),
        passes=(LIST,),
    ),
    ForeignHook(
        name="server-tool-blocker",
        matcher="mcp__shelf__put|mcp__other__put",
        program=PYTHON + 'sys.exit(2 if data["tool_input"]["what"] == "x" else 0)\n',
        stops=(PUT,),
        passes=(LOOK,),
    ),
    ForeignHook(
        name="blocker-of-writes-by-any-server",
        matcher="mcp__.*__(put|write|delete).*",
        program=BASH + "exit 2\n",
        stops=(PUT,),
        passes=(LOOK, WRITE),
        needs=("bash",),
    ),
    ForeignHook(
        name="blocker-of-servers-among-all-calls",
        matcher="*",
        program=PYTHON
        + 'is_put = re.match(r"mcp__\\w+__put$", data["tool_name"])\n'
        + "sys.exit(2 if is_put else 0)\n",
        stops=(PUT,),
        passes=(LOOK, LIST, READ),
    ),
    ForeignHook(
        name="validator-with-a-table-of-tools",
        program=PYTHON
        + 'known = {"Bash", "Read", "Write", "Edit", "Grep", "Glob"}\n'
        + 'sys.exit(0 if data["tool_name"] in known else 2)\n',
        stops=(LOOK,),
        passes=(LIST, READ, WRITE, EDIT, GREP, GLOB),
    ),
    ForeignHook(
        name="plan-mode-keeper",
        program=PYTHON
        + 'sys.exit(2 if data["permission_mode"] == "bypassPermissions"\n'
        + '    and data["tool_name"] == "Write" else 0)\n',
        stops=(WRITE,),
        passes=(READ,),
    ),
    ForeignHook(
        name="transcript-reader",
        program=PYTHON
        + 'lines = open(data["transcript_path"]).read().splitlines()\n'
        + 'assert lines and os.path.isdir(data["cwd"]) and data["session_id"]\n'
        + 'assert data["hook_event_name"] == "PreToolUse"\n'
        + 'sys.exit(2 if data["tool_name"] == "Write" else 0)\n',
        stops=(WRITE,),
        passes=(READ,),
    ),
)
