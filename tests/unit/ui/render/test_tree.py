from typing import Any

from markdown_it import MarkdownIt

from agentcli.ui.render.markdown_blocks import Node, build_tree


def outline(nodes: list[Node]) -> list[Any]:
    return [(node.type, node.content, outline(node.children)) for node in nodes]


def test_blocks_hold_what_stands_between_their_tokens() -> None:
    nodes = build_tree(MarkdownIt().parse("- a *b*\n\n---\n"))
    emphasised: Any = ("em", "", [("text", "b", [])])
    text = ("inline", "a *b*", [("text", "a ", []), emphasised])
    assert outline(nodes) == [
        ("bullet_list", "", [("list_item", "", [("paragraph", "", [text])])]),
        ("hr", "", []),
    ]
    assert [node.map for node in nodes] == [[0, 2], [2, 3]]
