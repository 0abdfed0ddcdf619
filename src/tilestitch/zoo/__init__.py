"""Networks that are built rather than downloaded: fixed structure, seeded random weights, the same bytes each time.

The weights mean nothing, but activations keep a natural size through the whole network, in float16 too.
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches

import onnx

from tilestitch.base.errors import InputError
from tilestitch.zoo.bert import Bert, BertForm
from tilestitch.zoo.conformer import Conformer
from tilestitch.zoo.densenet import DenseNet
from tilestitch.zoo.dlrm import Dlrm
from tilestitch.zoo.googlenet import GoogLeNet
from tilestitch.zoo.inputs import sample_inputs
from tilestitch.zoo.llama import LlamaBlock, LlamaForm, Phase
from tilestitch.zoo.mobilenet import MobileNetV2
from tilestitch.zoo.network import SequenceNetwork, ZooNetwork
from tilestitch.zoo.plain import AlexNet, Vgg
from tilestitch.zoo.resnet import ResNet
from tilestitch.zoo.unet import UNet
from tilestitch.zoo.vit import VisionTransformer

__all__ = ["ENTRIES", "ZooEntry", "build", "find", "names", "sample_inputs"]

_LENGTH = "<L>"  # in the name of an entry: any sequence length up to the number of positions
_USUAL_LENGTH = "128"


@dataclass(frozen=True, slots=True)
class ZooEntry:
    """One network that the zoo builds, or one per sequence length where the name contains `<L>`."""

    name: str
    description: str
    options: ZooNetwork

    def name_for(self, length: str) -> str:
        """The name with a sequence length in its place."""
        return self.name.replace(_LENGTH, length)


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
    ZooEntry("mobilenet-v2", "MobileNet-v2, images of 224x224, 3.5 M parameters", MobileNetV2()),
    ZooEntry("alexnet", "AlexNet, images of 227x227, 61.0 M parameters", AlexNet()),
    ZooEntry("vgg19", "VGG-19, images of 224x224, 143.7 M parameters", Vgg("vgg19", layers=(2, 2, 4, 4, 4))),
    ZooEntry("googlenet", "GoogLeNet, images of 224x224, 7.0 M parameters", GoogLeNet()),
    ZooEntry(
        "densenet121",
        "DenseNet-121, images of 224x224, 8.0 M parameters",
        DenseNet("densenet121", blocks=(6, 12, 24, 16)),
    ),
    ZooEntry("vit-b16", "ViT-B/16, images of 224x224, 86.6 M parameters", VisionTransformer("vit-b16", patch=16)),
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
    ZooEntry(
        "bert-large-<L>",
        "BERT-large encoder, L tokens, 335.1 M parameters",
        Bert("bert-large", BertForm.NATIVE, layers=24, hidden=1024, heads=16, feed_forward=4096),
    ),
    ZooEntry("dlrm", "DLRM of MLPerf, 26 tables cut to 1,000 rows, 5.7 M parameters", Dlrm()),
    ZooEntry("conformer", "Conformer encoder, 1,000 frames of 80 bins, 33.5 M parameters", Conformer()),
    ZooEntry(
        "llama-block-prefill-<L>",
        "one block of Llama 3.2 1B on a prompt of L tokens, 60.8 M parameters",
        LlamaBlock(Phase.PREFILL),
    ),
    ZooEntry(
        "llama-block-prefill-<L>-native",
        "the same, with RMSNormalization, RotaryEmbedding and Attention of opset 23",
        LlamaBlock(Phase.PREFILL, LlamaForm.NATIVE),
    ),
    ZooEntry(
        "llama-block-decode-<L>",
        "the same block on one token behind a cache of L tokens",
        LlamaBlock(Phase.DECODE),
    ),
    ZooEntry(
        "llama-block-decode-<L>-native",
        "the same, with RMSNormalization, RotaryEmbedding and Attention of opset 23",
        LlamaBlock(Phase.DECODE, LlamaForm.NATIVE),
    ),
    ZooEntry("unet", "U-Net of half the width, images of 256x256, 7.8 M parameters", UNet()),
)


def names() -> tuple[str, ...]:
    """The name of every entry; `<L>` stands for a sequence length."""
    return tuple(entry.name for entry in ENTRIES)


def build(name: str, *, small: bool = False) -> onnx.ModelProto:
    """Build a network of the zoo, batch dim symbolic ("N"), all other dims fixed.

    `small` keeps the structure and shrinks the sizes, for fast tests. Raises `InputError` for an unknown name and
    for a sequence length out of range.
    """
    options = find(name)
    return (options.reduced() if small else options).graph().model()


def find(name: str) -> ZooNetwork:
    """The sizes of a network by its name; raises `InputError` as `build` does."""
    for entry in ENTRIES:
        found = re.fullmatch(re.escape(entry.name).replace(re.escape(_LENGTH), "([0-9]+)"), name)
        if found is None:
            continue
        if isinstance(entry.options, SequenceNetwork):
            return entry.options.with_length(_sequence_length(entry, name, found[1], entry.options.positions))
        return entry.options
    raise InputError(_unknown(name))


def _sequence_length(entry: ZooEntry, name: str, digits: str, longest: int) -> int:
    # no leading zeros: one network has one name
    if re.fullmatch("[1-9][0-9]{0,3}", digits) is None or int(digits) > longest:
        raise InputError(
            f"zoo network '{name}': expected a sequence length from 1 to {longest}, found {digits}; "
            f"write, for example, {entry.name_for(_USUAL_LENGTH)}."
        )
    return int(digits)


def _unknown(name: str) -> str:
    """The message for a name that no entry has, with the closest name that would work."""
    found = re.search("-([1-9][0-9]{0,2})(?=-|$)", name)
    close = get_close_matches(re.sub("-[0-9]+(?=-|$)", f"-{_LENGTH}", name), names(), n=1)
    hint = ""
    if close:
        entry = next(entry for entry in ENTRIES if entry.name == close[0])
        longest = entry.options.positions if isinstance(entry.options, SequenceNetwork) else 0
        length = found[1] if found is not None and int(found[1]) <= longest else _USUAL_LENGTH
        hint = f" Did you mean '{entry.name_for(length)}'?"
    return f"zoo: unknown network '{name}'.{hint} Known: {', '.join(names())} ({_LENGTH}: a sequence length)."
