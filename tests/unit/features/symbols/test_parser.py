from pathlib import Path

import pytest

from agentcli.features.symbols.parser import GRAMMARS, LIMIT_BYTES, parse_file, parse_source

SOURCES = {
    ".py": (
        "LIMIT = 1\nclass A:\n    def m(self):\n        return LIMIT\n",
        [["LIMIT", "constant", 1, 1], ["A", "class", 2, 4], ["m", "function", 3, 4]],
    ),
    ".js": (
        "export const a = 1;\nclass K {\n  m() { f(); }\n}\nfunction f() {}\n",
        [
            ["a", "constant", 1, 1],
            ["K", "class", 2, 4],
            ["m", "method", 3, 3],
            ["f", "function", 5, 5],
        ],
    ),
    ".ts": (
        "interface I { x: number }\nexport type T = I;\nenum E { A }\nabstract class C {}\n",
        [
            ["I", "interface", 1, 1],
            ["T", "type", 2, 2],
            ["E", "enum", 3, 3],
            ["C", "class", 4, 4],
        ],
    ),
    ".tsx": ("export const App = () => <div/>;\n", [["App", "constant", 1, 1]]),
    ".go": (
        "package m\nconst C = 1\ntype T struct{}\nfunc (t T) M() {\n}\nfunc F() { C }\n",
        [
            ["C", "constant", 2, 2],
            ["T", "type", 3, 3],
            ["M", "method", 4, 5],
            ["F", "function", 6, 6],
        ],
    ),
    ".rs": (
        "struct S;\nimpl S {\n  fn m(&self) {}\n}\ntrait T {}\nmod x {}\n",
        [
            ["S", "struct", 1, 1],
            ["m", "function", 3, 3],
            ["T", "trait", 5, 5],
            ["x", "module", 6, 6],
        ],
    ),
    ".java": (
        "class A {\n  A() {}\n  int m() { return 1; }\n}\nrecord R(int a) {}\n",
        [
            ["A", "class", 1, 4],
            ["A", "constructor", 2, 2],
            ["m", "method", 3, 3],
            ["R", "record", 5, 5],
        ],
    ),
    ".c": (
        "#define M 1\nstatic int *f(int a)\n{\n  return g(a);\n}\ntypedef struct s { int a; } t;\n",
        [
            ["M", "macro", 1, 1],
            ["f", "function", 2, 5],
            ["t", "type", 6, 6],
            ["s", "struct", 6, 6],
        ],
    ),
    ".hpp": (
        "namespace n {\nclass Q { void m(); };\n}\nvoid n::Q::m() {}\n",
        [["n", "namespace", 1, 3], ["Q", "class", 2, 2], ["m", "method", 2, 2]],
    ),
    ".rb": (
        "module M\nclass A\n  def m; end\n  def self.s; end\nend\nend\n",
        [
            ["M", "module", 1, 6],
            ["A", "class", 2, 5],
            ["m", "method", 3, 3],
            ["s", "method", 4, 4],
        ],
    ),
    ".php": (
        "<?php\nclass A {\n  function m() {}\n}\nfunction f() {}\n",
        [["A", "class", 2, 4], ["m", "method", 3, 3], ["f", "function", 5, 5]],
    ),
}


@pytest.mark.parametrize("ending", SOURCES)
def test_definitions_of_every_language_are_found(ending: str) -> None:
    source, definitions = SOURCES[ending]
    found = parse_source(source.encode(), GRAMMARS[ending])
    assert found["definitions"][: len(definitions)] == definitions


def test_every_grammar_is_tried() -> None:
    tried = {GRAMMARS[ending] for ending in SOURCES}
    assert tried == set(GRAMMARS.values())


def test_names_in_comments_and_strings_are_no_uses() -> None:
    source = b'# load\nx = "load"\nload(reload)\nload()\n'
    assert parse_source(source, GRAMMARS[".py"])["names"] == {
        "x": [2],
        "load": [3, 4],
        "reload": [3],
    }


@pytest.mark.parametrize("source", [b"", b"\0\xff\xfe", b"def (((" * 1000, b"class \xc3\x28: pass"])
def test_text_that_is_no_program_is_no_error(source: bytes) -> None:
    assert "definitions" in parse_source(source, GRAMMARS[".py"])


def test_files_that_cannot_be_parsed_say_why(tmp_path: Path) -> None:
    large = tmp_path / "a.py"
    large.write_bytes(b"x = 1\n" * (LIMIT_BYTES // 6 + 1))
    assert parse_file(str(large)) == {"error": "larger than 1 MB"}
    assert parse_file(str(large.with_name("b.py"))) == {"error": "No such file or directory"}
