"""Whose fault it is decides the class; every message says where, what was found, what would be right, the way out."""


class TilestitchError(Exception):
    """Base of every error that a user may see as one line instead of a traceback."""


class InputError(TilestitchError):
    """The user's file, argument or environment is wrong."""


class DoesNotFit(TilestitchError):
    """The request is legal, but the machine is too small for it."""


class InvalidIR(TilestitchError):
    """An invariant of our own values does not hold: a bug of Tilestitch, never of its user."""
