"""The fields of a message of TLS or ssh: bytes, numbers, and what comes after its own length."""


class ByteFields:
    """Each `take` raises ValueError if there is no such field."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __bool__(self) -> bool:
        return bool(self._data)

    def take(self, count: int) -> bytes:
        if len(self._data) < count:
            raise ValueError("a message that ends too early")
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    def take_number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def take_counted(self, size: int) -> bytes:
        """Return a field whose length comes before it, in `size` bytes."""
        return self.take(self.take_number(size))

    def take_string(self) -> bytes:
        """Return a field as ssh writes it."""
        return self.take_counted(4)
