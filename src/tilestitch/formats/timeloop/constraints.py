"""Timeloop's constraints, of architectures and of files of their own: targets, factors, permutations."""

import re
from collections.abc import Iterator, Mapping, Sequence

from tilestitch.formats.foreign_file import Part

_FIELDS = {
    "dataspace": ("keep", "keep_only", "bypass"),
    "temporal": ("factors", "permutation"),
    "spatial": ("factors", "permutation", "split"),
}
_UNKEPT = {  # Timeloop's as well
    "dataspace": ("bypass_only", "no_coalesce"),
    "temporal": ("no_reuse", "no_temporal_reuse", "rmw_first_update", "rmw_on_first_writeback"),
    "spatial": ("no_reuse", "no_multicast_no_reduction", "no_link_transfer"),
}
_UNKEPT_LOOPS = (
    *("factors_only", "no_iteration_over_dataspaces", "must_iterate_over_dataspaces", "maximize_dims"),
    *("maximize_dims_capacity", "remainders", "default_max_factor"),
)
_FACTOR = re.compile(r"([A-Za-z]\w*?)\s*(<=|=)?\s*([0-9]{1,9})", re.ASCII)


def targets_of(part: Part | None) -> Iterator[Part]:
    """Constraints, each with its `target` and its `type`, which version 0.2 also lists under the name of a target."""
    if part is None or part.is_absent:
        return
    if isinstance(part.value, dict):
        fields = part.fields((), ("targets", "constraints", "version", "template"))
        listed = next((fields[key] for key in ("targets", "constraints") if key in fields), None)
        if listed is None:
            return
        part = listed
    for target in part.items("targets", least=0):
        named = target.entries()
        if "name" not in named or "constraints" not in named:
            yield target
            continue
        for one in named["constraints"].items("constraints", least=0):
            fields = one.fields(("type",), ("attributes",))
            own = fields["attributes"].entries() if "attributes" in fields else {}
            said = {key: value.value for key, value in own.items()}
            yield Part({**said, "target": named["name"].value, "type": fields["type"].value}, one.file, one.path)


def constraint_fields(part: Part, kind: str, more: Sequence[str]) -> Mapping[str, Part]:
    """What a constraint of a kind (dataspace, temporal, spatial) says, with `more` fields where it is listed.

    What is none of Timeloop's is refused, and what of Timeloop's the search does not keep to, unless it says nothing.
    """
    unkept = (*_UNKEPT[kind], *(() if kind == "dataspace" else _UNKEPT_LOOPS))
    found = part.entries()
    empty = {key for key in unkept if key in found and (found[key].is_absent or found[key].value == [])}
    said = Part({key: one.value for key, one in found.items() if key not in empty}, part.file, part.path)
    unsupported = dict.fromkeys(unkept, "the search does not keep to it; remove it")
    return said.fields((), (*_FIELDS[kind], *more), unsupported)


def factors_of(part: Part) -> list[tuple[str, str, int]]:
    """Loops with = or <= and a factor, 0 left out: it is what the others leave, which says nothing."""
    if isinstance(part.value, list):
        texts = [item.text("a factor") for item in part.items("factors", least=0)]
    else:
        texts = re.split(r"[\s,]+", re.sub(r"\s*(<=|=)\s*", r"\1", part.text("factors")).strip())
    found: list[tuple[str, str, int]] = []
    for text in texts:
        match = _FACTOR.fullmatch(text)
        if match is None:
            part.expected("loops with their factors, as in [K=16, C<=4]")
        if int(match[3]) > 0:
            found.append((match[1], match[2] or "=", int(match[3])))
    return found


def permutation_of(part: Part) -> tuple[str, ...]:
    """The loops of a permutation in its order: a list, words, or letters, with blanks among them or without."""
    if isinstance(part.value, list):
        return tuple(item.text("a loop") for item in part.items("loops", least=0))
    words = re.split(r"[\s,]+", part.text("loops such as PRKC").strip())
    letters = "".join(words)
    is_letters = len(words) == 1 or (letters.isalpha() and letters.isupper() and len(set(letters)) == len(letters))
    return tuple(letters) if is_letters else tuple(words)


def spread_loops(
    permutation: Sequence[str],
    split: int | None,
    is_y: bool,
    fixed: Sequence[tuple[str, str, int]],
    known: Sequence[str],
) -> tuple[str, ...] | None:
    """The loops that a mesh may spread along its X or its Y; nothing where everything may be.

    What stands before the split goes along X, the rest along Y; a loop with the factor 1 along neither.
    """
    alone = {loop for loop, sign, factor in fixed if factor == 1}
    if split is None:
        return tuple(loop for loop in known if loop not in alone) if alone else None
    order = (*permutation, *(loop for loop in known if loop not in permutation))
    here = order[split:] if is_y else order[:split]
    return tuple(loop for loop in here if loop not in alone)
