"""A progress message with a done/total count."""


class Counted(str):
    """A line for a person, which says of how much how much is done.

    Whoever shows lines alone shows it as one; a terminal has a bar.
    """

    __slots__ = ("done", "total")
    done: int
    total: int

    def __new__(cls, line: str, done: int, total: int) -> "Counted":
        """The line, and how many of how many are done."""
        counted = super().__new__(cls, line)
        counted.done, counted.total = done, total
        return counted

    @property
    def subject(self) -> str:
        """What it is about: the words before its colon."""
        return self.partition(":")[0]
