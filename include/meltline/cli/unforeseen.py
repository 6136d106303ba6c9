"""Errors of others that nobody has caught, told as errors of ours."""

from meltline.domain.errors import MeltlineError

_CAUSED = "Caused by: "


def unforeseen(error: Exception) -> MeltlineError:
    """What is said of an error that no step expects."""
    return MeltlineError(
        "something went wrong that Meltline did not foresee; nothing more was done",
        object=type(error).__name__,
        found=_reason(error)[:500],
        next="run again: every step is safe to repeat; MELTLINE_DEBUG=1 shows the whole trace",
    )


def _reason(error: Exception) -> str:
    """The first line; of a trace of Java, whose first line names a call alone, the deepest cause."""
    lines = str(error).splitlines()
    thrown = [line.removeprefix(": ") for line in lines[1:2] if line.startswith(": ")]
    causes = [line.removeprefix(_CAUSED) for line in lines if line.startswith(_CAUSED)]
    told = [*lines[:1], *thrown, *causes]
    return told[-1] if told else ""
