"""The energy of a simulated program: of the bytes that moved, and of the arithmetic."""

from dataclasses import dataclass
from itertools import groupby
