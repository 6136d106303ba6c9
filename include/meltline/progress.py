"""A progress message with a done/total count.

Long steps emit it through the ordinary progress callback, which takes strings; so it is one.
"""


class Counted(str):
    """A progress message that also carries how many of how many units are done.

    A plain log shows it as a line of text; a terminal draws a progress bar.
    """

    __slots__ = ("done", "total")
    done: int
    total: int

    def __new__(cls, line: str, done: int, total: int) -> "Counted":
        """Creates the message with its two counts."""
        counted = super().__new__(cls, line)
        counted.done, counted.total = done, total
        return counted

    @property
    def subject(self) -> str:
        """Returns the subject of the message: the text before its colon."""
        return self.partition(":")[0]
