from agentcli.system.output import FilteredSink


class Kept:
    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.is_closed = False

    @property
    def is_full(self) -> bool:
        return False

    def skip(self, chunk: bytes) -> None:
        raise AssertionError("nothing is skipped while there is space")

    def feed(self, chunk: bytes) -> None:
        self.chunks.append(chunk)

    def close(self) -> None:
        self.is_closed = True


class LastByteLater:
    def __init__(self) -> None:
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        whole, self._held = self._held + chunk[:-1], chunk[-1:]
        return whole

    def close(self) -> bytes:
        return self._held


def test_what_was_held_back_comes_before_the_end() -> None:
    kept = Kept()
    sink = FilteredSink(kept, LastByteLater())
    for chunk in (b"a", b"bc", b"d"):
        sink.feed(chunk)
    assert (kept.chunks, kept.is_closed) == ([b"ab", b"c"], False)

    sink.close()

    assert (kept.chunks, kept.is_closed) == ([b"ab", b"c", b"d"], True)
