"""Whose fault it is decides the class; every message says where, what was found, what would be right, the way out."""

from typing import Self


def printable(text: str | bytes, most: int = 300) -> str:
    """Text from outside as a message or a report shows it: on one line, nothing that moves the cursor.

    Of more than `most` characters the middle is left out. Bytes are what protobuf gives for text that is not UTF-8.
    """
    if isinstance(text, bytes):
        text = text.decode(errors="backslashreplace")
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= most else f"{shown[: most // 2]}...{shown[-most // 4 :]}"


# Ways out that name options; each is tried before it is shown.
SMALLER_BATCH = "a smaller --batch"
LARGER_SHARE = "a larger --batch-per-cluster"
FEWER_BATCHES = "fewer --batches"
EVERY_OPERATOR_ALONE = "strategy layerwise"


class TilestitchError(Exception):
    """Base of every error that a user may see as one line instead of a traceback."""

    def unraised(self) -> Self:
        """A copy without frames. Who catches an error to raise it later copies it both times: a frame that holds the
        error that passed through it stays alive, with all that it knows of a network, until cycles are looked for.
        """
        copy = type(self).__new__(type(self), *self.args)
        copy.__dict__.update(self.__dict__)
        return copy


class InputError(TilestitchError):
    """The user's file, argument or environment is wrong."""


class TooLarge(InputError):
    """Numbers arise that the machine does not hold, so that nothing could be compared."""


class DoesNotFit(TilestitchError):
    """The request is legal, but the machine is too small for it.

    `remedies` are what may help; who knows the whole request keeps those that do.
    """

    def __init__(self, problem: str, *remedies: str) -> None:
        super().__init__(f"{problem} Try: {'; '.join(remedies)}." if remedies else problem)
        self.problem, self.remedies = problem, remedies


class InvalidIR(TilestitchError):
    """An invariant of our own values does not hold: a bug of Tilestitch, never of its user."""


class MissingPackage(TilestitchError, ImportError):
    """A package that not every installation has; the message says how to install it."""
