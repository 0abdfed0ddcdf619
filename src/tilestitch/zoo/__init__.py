"""Networks that are built rather than downloaded: fixed structure, seeded random weights, the same bytes each time.

The weights mean nothing, but activations keep a natural size through the whole network, in float16 too.
"""

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches

import onnx

from tilestitch.errors import InputError
from tilestitch.zoo.bert import Bert, BertForm, bert_graph
from tilestitch.zoo.inputs import sample_inputs
from tilestitch.zoo.resnet import ResNet, resnet_graph

__all__ = ["ENTRIES", "ZooEntry", "build", "names", "sample_inputs"]

_LENGTH = "<L>"  # in the name of an entry: any sequence length up to the number of positions


@dataclass(frozen=True, slots=True)
class ZooEntry:
    """One network that the zoo builds, or one per sequence length where the name contains `<L>`."""

    name: str
    description: str
    options: ResNet | Bert


ENTRIES: tuple[ZooEntry, ...] = (
    ZooEntry(
        "resnet18",
        "ResNet-18, images of 224x224, 11.7 M parameters",
        ResNet("resnet18", blocks=(2, 2, 2, 2), bottleneck=False),
    ),
    ZooEntry(
        "resnet50",
        "ResNet-50 v1.5, images of 224x224, 25.6 M parameters",
        ResNet("resnet50", blocks=(3, 4, 6, 3), bottleneck=True),
    ),
    ZooEntry(
        "bert-base-<L>",
        "BERT-base encoder, L tokens, 109.5 M parameters",
        Bert("bert-base", BertForm.NATIVE),
    ),
    ZooEntry(
        "bert-base-<L>-decomposed",
        "the same, with softmax, GELU and layer normalisation in elementary operators",
        Bert("bert-base", BertForm.DECOMPOSED),
    ),
    ZooEntry(
        "bert-base-<L>-attention",
        "the same, with the Attention operator of opset 23",
        Bert("bert-base", BertForm.ATTENTION),
    ),
)


def names() -> tuple[str, ...]:
    """The name of every entry; `<L>` stands for a sequence length."""
    return tuple(entry.name for entry in ENTRIES)


def build(name: str, *, small: bool = False) -> onnx.ModelProto:
    """Build a network of the zoo, batch dim symbolic ("N"), all other dims fixed.

    `small` keeps the structure and shrinks the sizes, for fast tests. Raises `InputError` for an unknown name and
    for a sequence length out of range.
    """
    options = _find(name)
    if small:
        options = options.reduced()
    match options:
        case ResNet():
            return resnet_graph(options).model()
        case Bert():
            return bert_graph(options).model()


def _find(name: str) -> ResNet | Bert:
    for entry in ENTRIES:
        match entry.options:
            case ResNet():
                if name == entry.name:
                    return entry.options
            case Bert():
                found = re.fullmatch(re.escape(entry.name).replace(re.escape(_LENGTH), "([0-9]+)"), name)
                if found is not None:
                    return replace(entry.options, sequence_length=_sequence_length(name, found[1], entry.options))
    raise InputError(_unknown(name))


def _sequence_length(name: str, digits: str, options: Bert) -> int:
    # no leading zeros: one network has one name
    if re.fullmatch("[1-9][0-9]{0,3}", digits) is None or int(digits) > options.positions:
        raise InputError(
            f"zoo network '{name}': expected a sequence length from 1 to {options.positions}, found {digits}; "
            f"write, for example, {options.name}-128."
        )
    return int(digits)


def _unknown(name: str) -> str:
    """The message for a name that no entry has, with the closest name that would work."""
    positions = max(entry.options.positions for entry in ENTRIES if isinstance(entry.options, Bert))
    found = re.search("-([1-9][0-9]{0,3})(?=-|$)", name)
    length = found[1] if found is not None and int(found[1]) <= positions else "128"
    close = get_close_matches(re.sub("-[0-9]+(?=-|$)", f"-{_LENGTH}", name), names(), n=1)
    hint = f" Did you mean '{close[0].replace(_LENGTH, length)}'?" if close else ""
    return (
        f"zoo: unknown network '{name}'.{hint} Known: {', '.join(names())} "
        f"({_LENGTH} is a sequence length from 1 to {positions})."
    )
