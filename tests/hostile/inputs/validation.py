"""Options of a validation that contradict themselves, and what has no array or no layers."""

from pathlib import Path

from tests.hostile.inputs.making import Hostile


def asked(name: str, *arguments: str) -> Hostile:
    """A right product and wrong options."""
    return Hostile(name, ["validate", "O[m,n] += A[m,k] * B[k,n]; m=4 n=4 k=4", *arguments])


VALIDATION = (
    asked("no mappings", "--mappings", "0"),
    asked("a negative number of mappings", "--mappings", "-3"),
    asked("more mappings than anyone waits for", "--mappings", "1000001"),
    asked("a seed of a word", "--seed", "oats"),
    asked("fewer than no worst mappings", "--worst", "-1"),
    asked("a layer that is not there", "--layer", "2"),
    asked("a picture that is no SVG", "--plot", "errors.png"),
    asked("a picture in a place where nobody can write", "--plot", "/dev/null/errors.svg"),
    asked("a picture and the JSON in one file", "--plot", "errors.svg", "--json", "errors.svg"),
    asked("a page of a tree in the place of the JSON", "--html", "p", "--json", "p", "--machine", "tpu-like"),
    Hostile("nothing to validate", ["validate"]),
    Hostile(
        "a picture in the place of the layers", ["validate", "net.svg", "--plot", "net.svg"], Path("net.svg").touch
    ),
)
