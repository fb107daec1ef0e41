"""The program that reads source files with tree-sitter and prints the symbols in them.

It runs on its own, in a process that may only read: a grammar is C code on untrusted text. It gets
a file of paths, each ended by NUL, and prints one line of JSON per file, in that order.
"""

import json
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

LIMIT_BYTES = 1_000_000
"""Larger files are generated, or data."""
LINES_MOST = 200
"""The most lines that are listed for one name in one file."""


NO_GRAMMAR = "no grammar: "
"""The beginning of the error of a file whose grammar is not installed, before its module."""


class Grammar(NamedTuple):
    module: str
    definitions: str
    """A query: `@name` is the name, the other capture its definition and the kind of it."""
    language: str = "language"
    """The function of the module that returns the grammar."""


_PYTHON = """
(class_definition name: (identifier) @name) @class
(function_definition name: (identifier) @name) @function
(module (expression_statement (assignment left: (identifier) @name)) @constant)
"""
_JAVASCRIPT = """
(function_declaration name: (identifier) @name) @function
(generator_function_declaration name: (identifier) @name) @function
(method_definition name: (property_identifier) @name) @method
(program (lexical_declaration (variable_declarator name: (identifier) @name)) @constant)
(export_statement (lexical_declaration (variable_declarator name: (identifier) @name)) @constant)
"""
_TYPESCRIPT = f"""{_JAVASCRIPT}
(class_declaration name: (type_identifier) @name) @class
(abstract_class_declaration name: (type_identifier) @name) @class
(interface_declaration name: (type_identifier) @name) @interface
(type_alias_declaration name: (type_identifier) @name) @type
(enum_declaration name: (identifier) @name) @enum
(internal_module name: (identifier) @name) @namespace
"""
_C = """
(function_declarator declarator: (identifier) @name) @function
(struct_specifier name: (type_identifier) @name body: (_)) @struct
(union_specifier name: (type_identifier) @name body: (_)) @union
(enum_specifier name: (type_identifier) @name body: (_)) @enum
(type_definition declarator: (type_identifier) @name) @type
(preproc_def name: (identifier) @name) @macro
(preproc_function_def name: (identifier) @name) @macro
"""
_CPP = f"""{_C}
(class_specifier name: (type_identifier) @name body: (_)) @class
(namespace_definition name: (namespace_identifier) @name) @namespace
(function_declarator declarator: (field_identifier) @name) @method
(function_declarator declarator: (qualified_identifier name: (identifier) @name)) @method
"""
_GO = """
(function_declaration name: (identifier) @name) @function
(method_declaration name: (field_identifier) @name) @method
(type_spec name: (type_identifier) @name) @type
(source_file (const_declaration (const_spec name: (identifier) @name) @constant))
(source_file (var_declaration (var_spec name: (identifier) @name) @variable))
"""
_RUST = """
(function_item name: (identifier) @name) @function
(struct_item name: (type_identifier) @name) @struct
(enum_item name: (type_identifier) @name) @enum
(trait_item name: (type_identifier) @name) @trait
(type_item name: (type_identifier) @name) @type
(mod_item name: (identifier) @name) @module
(const_item name: (identifier) @name) @constant
(static_item name: (identifier) @name) @constant
(macro_definition name: (identifier) @name) @macro
"""
_JAVA = """
(class_declaration name: (identifier) @name) @class
(interface_declaration name: (identifier) @name) @interface
(enum_declaration name: (identifier) @name) @enum
(record_declaration name: (identifier) @name) @record
(method_declaration name: (identifier) @name) @method
(constructor_declaration name: (identifier) @name) @constructor
"""
_RUBY = """
(class name: (constant) @name) @class
(module name: (constant) @name) @module
(method name: (identifier) @name) @method
(singleton_method name: (identifier) @name) @method
"""
_PHP = """
(class_declaration name: (name) @name) @class
(interface_declaration name: (name) @name) @interface
(trait_declaration name: (name) @name) @trait
(enum_declaration name: (name) @name) @enum
(function_definition name: (name) @name) @function
(method_declaration name: (name) @name) @method
"""

_JAVASCRIPT_CLASS = "(class_declaration name: (identifier) @name) @class"
_JAVASCRIPT_GRAMMAR = Grammar("tree_sitter_javascript", _JAVASCRIPT + _JAVASCRIPT_CLASS)
_TYPESCRIPT_GRAMMAR = Grammar("tree_sitter_typescript", _TYPESCRIPT, "language_typescript")
_CPP_GRAMMAR = Grammar("tree_sitter_cpp", _CPP)

GRAMMARS = {
    ".py": Grammar("tree_sitter_python", _PYTHON),
    ".pyi": Grammar("tree_sitter_python", _PYTHON),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), _JAVASCRIPT_GRAMMAR),
    **dict.fromkeys((".ts", ".mts", ".cts"), _TYPESCRIPT_GRAMMAR),
    ".tsx": Grammar("tree_sitter_typescript", _TYPESCRIPT, "language_tsx"),
    ".c": Grammar("tree_sitter_c", _C),
    **dict.fromkeys((".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), _CPP_GRAMMAR),
    ".go": Grammar("tree_sitter_go", _GO),
    ".rs": Grammar("tree_sitter_rust", _RUST),
    ".java": Grammar("tree_sitter_java", _JAVA),
    ".rb": Grammar("tree_sitter_ruby", _RUBY),
    ".php": Grammar("tree_sitter_php", _PHP, "language_php"),
}
"""By the ending of a file's name, in lower case."""

_IDENTIFIERS = (
    *("identifier", "type_identifier", "field_identifier", "property_identifier"),
    *("shorthand_property_identifier", "namespace_identifier", "package_identifier"),
    *("constant", "name"),
)
"""The nodes that are names; each grammar has some of them."""


@cache
def _load(grammar: Grammar) -> tuple[Any, Any, Any]:
    """Return a parser and the queries for definitions and for names. Raise ImportError."""
    from tree_sitter import Language, Parser, Query

    language = Language(getattr(import_module(grammar.module), grammar.language)())
    kinds = [kind for kind in _IDENTIFIERS if language.id_for_node_kind(kind, True) is not None]
    names = Query(language, "\n".join(f"({kind}) @name" for kind in kinds))
    return Parser(language), Query(language, grammar.definitions), names


def parse_source(source: bytes, grammar: Grammar) -> dict[str, Any]:
    """Return the definitions in a source text, and the lines of each name in it."""
    from tree_sitter import QueryCursor

    parser, definitions, names = _load(grammar)
    root = parser.parse(source).root_node
    matches = QueryCursor(definitions).matches(root)
    found = sorted({_describe(captures, source) for _, captures in matches})
    lines: dict[str, set[int]] = {}
    for node in QueryCursor(names).captures(root).get("name", ()):
        lines.setdefault(_get_text(node, source), set()).add(node.start_point.row + 1)
    return {
        "definitions": [described for _, *described in found],
        "names": {name: sorted(numbers)[:LINES_MOST] for name, numbers in lines.items()},
    }


def _describe(captures: dict[str, Any], source: bytes) -> tuple[int, str, str, int, int]:
    """Return the start of a definition, its name and kind, and its first and last line."""
    (name,) = captures.pop("name")
    ((kind, (node, *_)),) = captures.items()
    # A C function's name is in its declarator; the definition is around it.
    while node.type.endswith("declarator") and node.parent is not None:
        node = node.parent
    end = node.end_point.row + (node.end_point.column > 0)
    return node.start_byte, _get_text(name, source), kind, name.start_point.row + 1, end


def _get_text(node: Any, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def parse_file(path: str) -> dict[str, Any]:
    """Return the symbols of a file, or an error in words."""
    grammar = GRAMMARS[Path(path).suffix.lower()]
    try:
        with Path(path).open("rb") as file:
            source = file.read(LIMIT_BYTES + 1)
        if len(source) > LIMIT_BYTES:
            return {"error": f"larger than {LIMIT_BYTES // 1_000_000} MB"}
        return parse_source(source, grammar)
    except ImportError:
        return {"error": f"{NO_GRAMMAR}{grammar.module} is not installed"}
    except OSError as error:
        return {"error": error.strerror or "cannot be read"}


def main(list_of_paths: str) -> Iterator[str]:
    """Yield a line for each file that is listed."""
    for path in Path(list_of_paths).read_bytes().split(b"\0")[:-1]:
        yield json.dumps(parse_file(path.decode("utf-8", "surrogateescape"))) + "\n"


if __name__ == "__main__":
    for line in main(sys.argv[1]):
        sys.stdout.write(line)
        sys.stdout.flush()  # if it crashes, the next file is to blame
