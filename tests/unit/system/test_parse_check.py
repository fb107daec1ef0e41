import pytest

from agentcli.session.edit_checks import LIMIT_BYTES, find_parse_error

BROKEN = {
    "a.py": (b"def f(:\n    pass\n", "line 1: invalid syntax"),
    "b.pyi": (b"x = 1\n  y = 2\n", "line 2: unexpected indent"),
    "return.py": (b"return 1\n", "line 1: 'return' outside function"),
    "nul.py": (b"x = '\0'\n", "null bytes"),
    "c.json": (b'{"a": 1,}', "line 1 column"),
    "d.toml": (b"a = \n", "line 1"),
    "e.yaml": (b"a: [1, 2\nb: 3\n", "line 2"),
    "f.YML": (b"a: b: c\n", "line 1"),
}
FINE = {
    "a.py": b"x = 1\n",
    "escape.py": b"x = '\\d'\n",
    "bom.json": b'\xef\xbb\xbf{"a": 1}',
    "tsconfig.base.json": b"{ // comments\n}",
    "chart.yaml": b"{{ .Values.x }}: [\n",
    "tags.yaml": b"a: !Ref x\n---\nb: 1\n",
    "latin.py": "x = 'é'\n".encode("latin-1"),
    "deep.json": b"[" * 200_000,
    "large.json": b"[" * (LIMIT_BYTES + 1),
    "unknown.ts": b"const = ;",
    "py": b"((",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_file_is_named_with_its_line(name: str) -> None:
    data, why = BROKEN[name]
    assert why in find_parse_error(f"dir/{name}", data)


@pytest.mark.parametrize("name", FINE)
def test_file_that_may_be_right_is_left_alone(name: str) -> None:
    assert find_parse_error(name, FINE[name]) == ""
