"""Files for coding agents in the shapes that repositories have: all made up, none copied.

Each shape is a way of writing front matter or a body that people use. They are combined with the
places and names that the agents read.
"""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from agentcli.system.agent_files import NOT_READ

HEADERS: Mapping[str, str] = {
    "plain": "---\nname: {name}\ndescription: Does {name}\n---\n",
    "colon": "---\nname: {name}\ndescription: Use this when: something breaks\n---\n",
    "two-colons": "---\nname: {name}\ndescription: First: this. Second: that\n---\n",
    "example": '---\nname: {name}\ndescription: Use it. <example>user: "hi" </example>\n---\n',
    "single-quotes": "---\nname: '{name}'\ndescription: 'It''s fine: really'\n---\n",
    "double-quotes": '---\nname: "{name}"\ndescription: "Says \\"hi\\": twice"\n---\n',
    "folded": "---\nname: {name}\ndescription: >\n  Several\n  lines\n---\n",
    "literal": "---\nname: {name}\ndescription: |\n  Several\n  lines: here\n---\n",
    "folded-strip": "---\nname: {name}\ndescription: >-\n  Several\n  lines\n---\n",
    "wrapped": "---\nname: {name}\ndescription: Starts here\n  and goes on\n---\n",
    "no-name": "---\ndescription: Does something\n---\n",
    "no-description": "---\nname: {name}\n---\n",
    "empty-fields": "---\nname:\ndescription:\n---\n",
    "empty-header": "---\n---\n",
    "none": "",
    "heading-only": "# {name}\n\n",
    "bom": "\ufeff---\nname: {name}\ndescription: With a mark\n---\n",
    "crlf": "---\r\nname: {name}\r\ndescription: From elsewhere\r\n---\r\n",
    "no-end": "---\nname: {name}\ndescription: Never closed\n\n",
    "dots": "---\nname: {name}\ndescription: Ends with dots\n...\n",
    "long-fence": "-----\nname: {name}\ndescription: Long fences\n-----\n",
    "blank-before": "\n\n---\nname: {name}\ndescription: Not at the top\n---\n",
    "spaces-after": "---  \nname: {name}\ndescription: Spaces\n---\t\n",
    "upper-name": "---\nname: My Great {name}\ndescription: Capital letters\n---\n",
    "underscores": "---\nname: my_{name}\ndescription: Underscores\n---\n",
    "slash-name": "---\nname: team/{name}\ndescription: A slash\n---\n",
    "number-name": "---\nname: 42\ndescription: A number\n---\n",
    "unicode": "---\nname: prüfer-{name}\ndescription: Prüft alles – gründlich 🚀\n---\n",
    "emoji-keys": "---\nname: {name}\ndescription: d\n🚀: yes\n---\n",
    "list-description": "---\nname: {name}\ndescription:\n  - one\n  - two\n---\n",
    "at-sign": "---\nname: {name}\ndescription: @someone wrote this\n---\n",
    "star": "---\nname: {name}\ndescription: *very* important\n---\n",
    "backtick": "---\nname: {name}\ndescription: `make` first\n---\n",
    "percent": "---\nname: {name}\ndescription: %50 faster\n---\n",
    "brackets": "---\nname: {name}\ndescription: [WIP] not done: yet\n---\n",
    "braces": "---\nname: {name}\ndescription: {{{{ var }}}} is filled\n---\n",
    "hash": "---\nname: {name}\ndescription: Fixes # signs\n---\n",
    "tabs": "---\nname:\t{name}\ndescription:\tTabs\n---\n",
    "tab-indent": "---\nname: {name}\nmetadata:\n\tversion: 1\ndescription: d\n---\n",
    "duplicate": "---\nname: {name}\ndescription: a\ndescription: b\n---\n",
    "date": "---\nname: {name}\ndescription: d\ndate: 2024-99-99\n---\n",
    "comment": "---\n# written by hand\nname: {name} # the name\ndescription: d\n---\n",
    "metadata": "---\nname: {name}\ndescription: d\nlicense: MIT\nmetadata: {{b: [c]}}\n---\n",
    "color-model": "---\nname: {name}\ndescription: d\nmodel: sonnet\ncolor: green\n---\n",
    "inherit": "---\nname: {name}\ndescription: d\nmodel: inherit\n---\n",
    "tools-words": "---\nname: {name}\ndescription: d\ntools: Read, Grep, Glob, Bash\n---\n",
    "tools-blanks": "---\nname: {name}\ndescription: d\ntools: Read Grep LS TodoWrite\n---\n",
    "tools-list": "---\nname: {name}\ndescription: d\ntools:\n- Read\n- Edit\n- WebSearch\n---\n",
    "tools-flow": '---\nname: {name}\ndescription: d\ntools: ["Read", "Write", "Task"]\n---\n',
    "tools-limits": "---\nname: {name}\ndescription: d\ntools: Bash(git diff:*, ls), Read\n---\n",
    "tools-servers": "---\nname: {name}\ndescription: d\ntools: mcp__db__query, Read\n---\n",
    "tools-star": "---\nname: {name}\ndescription: d\ntools: '*'\n---\n",
    "tools-switches": "---\ndescription: d\nmode: primary\ntools:\n  write: false\n---\n",
    "tools-empty": "---\nname: {name}\ndescription: d\ntools:\n---\n",
    "allowed-tools": "---\nname: {name}\ndescription: d\nallowed-tools: Bash(gh:*), Read\n---\n",
    "hint": "---\ndescription: d\nargument-hint: [issue] [priority]\n---\n",
    "hint-one": "---\ndescription: d\nargument-hint: [file]\n---\n",
    "hint-angle": "---\ndescription: d\nargument-hint: <file> | --all\n---\n",
    "opencode": "---\ndescription: d\nagent: build\nmodel: anthropic/x\nsubtask: true\n---\n",
    "permission": "---\ndescription: d\npermission:\n  edit: deny\n  bash:\n    '*': ask\n---\n",
    "hooks": "---\nname: {name}\ndescription: d\nhooks:\n  PreToolUse:\n    - matcher: Bash\n---\n",
    "html-comment": "<!-- generated -->\n---\nname: {name}\n---\n",
    "only-fence": "---\n",
}
BODIES = (
    "You are careful.\n\n## Steps\n\n1. Look.\n2. Fix $ARGUMENTS.\n",
    "Check `$1` and !`git status` in @src/main.py.\r\nThen stop.\r\n",
)
RULE_HEADERS: Mapping[str, str] = {
    "always": "---\ndescription: d\nglobs:\nalwaysApply: true\n---\n",
    "globs": "---\ndescription:\nglobs: *.ts, src/**/*.{tsx,jsx}\nalwaysApply: false\n---\n",
    "globs-list": '---\nglobs: ["*.py", "tests/**"]\n---\n',
    "globs-quoted": '---\ndescription: "d: e"\nglobs: "**/*.go"\n---\n',
    "asked": "---\ndescription: When writing tests: read this\nalwaysApply: false\n---\n",
    "manual": "---\ndescription:\nglobs:\nalwaysApply: false\n---\n",
    "none": "",
    "paths": "---\npaths:\n  - src/api/**\n  - '**/*.sql'\n---\n",
    "apply-to": "---\napplyTo: '**/*.ts,**/*.tsx'\n---\n",
    "broken": "---\nglobs: **/*.rs\nalwaysApply: false\n---\n",
    "trigger-glob": "---\ntrigger: glob\nglobs: '*.go'\n---\n",
    "trigger-always": "---\ntrigger: always_on\n---\n",
    "trigger-model": "---\ntrigger: model_decision\ndescription: For APIs\n---\n",
    "inclusion-match": '---\ninclusion: fileMatch\nfileMatchPattern: ["**/*.ts"]\n---\n',
    "inclusion-auto": "---\ninclusion: auto\nname: x\ndescription: When it fits\n---\n",
}
PROMPTS: Mapping[str, str] = {
    "plain": 'prompt = "Do it."',
    "described": 'description = "Does it"\nprompt = """\nDo {{args}}.\n"""',
    "shell": "prompt = '''Look at !{git diff} and @{README.md}.'''",
    "more-keys": 'prompt = "x"\nmodel = "y"\n[meta]\na = 1',
    "bom": '\ufeffprompt = "With a mark."',
    "no-prompt": 'description = "d"',
    "broken": 'prompt = "never closed',
    "number": "prompt = 5",
}


def list_corpus() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each file."""
    for shape, header in HEADERS.items():
        for at, body in enumerate(BODIES):
            name = f"{shape}-{at}"
            text = header.format(name=name) + body
            yield f".claude/skills/skill-{name}/SKILL.md", text
            yield f".claude/agents/agent-{name}.md", text
            yield f".claude/commands/{'git/' if at else ''}command-{name}.md", text
            yield f".opencode/agent/other-{name}.md", text
    yield from _list_rules()
    for shape, text in PROMPTS.items():
        yield f".gemini/commands/more/{shape}.toml", text
    for shape in ("plain", "colon", "none", "hint"):
        text = HEADERS[shape].format(name=shape) + BODIES[0]
        yield f".codex/prompts/{shape}.md", text
        yield f".opencode/command/{shape}.md", text
        yield f".agents/skills/shared-{shape}/SKILL.md", text
        yield f".cursor/commands/cursor-{shape}.md", text
        yield f".github/prompts/github-{shape}.prompt.md", text
        yield f".github/agents/github-{shape}.agent.md", text
        yield f".codex/skills/codex-{shape}/SKILL.md", text
    for name in ("AGENTS.override.md", ".windsurfrules", ".junie/guidelines.md", "WARP.md"):
        yield name, f"Said in {name}.\n"
    for name in NOT_READ:
        yield name if "." in PurePosixPath(name).name[1:] else f"{name}/x.md", "{}"


def _list_rules() -> Iterator[tuple[str, str]]:
    for shape, header in RULE_HEADERS.items():
        yield f".cursor/rules/{shape}.mdc", f"{header}Use tabs in {shape}.\n"
        yield f".claude/rules/deep/{shape}.md", f"{header}Use blanks in {shape}.\n"
        yield f".github/instructions/{shape}.instructions.md", f"{header}Be brief in {shape}.\n"
        for folder in (".windsurf/rules", ".clinerules", ".roo/rules", ".kiro/steering"):
            yield f"{folder}/{shape}.md", f"{header}Be kind in {folder} {shape}.\n"
