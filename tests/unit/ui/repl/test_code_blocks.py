from agentcli.ui.repl.commands.inspect import find_code_blocks


def test_blocks_are_exactly_what_stands_between_the_fences() -> None:
    text = "a\n```py\nx = 1\n\n\ty\n```\nb\n~~~~\n```\n~~~~\n```\nnever closed"
    assert find_code_blocks(text) == ["x = 1\n\n\ty\n", "```\n"]
