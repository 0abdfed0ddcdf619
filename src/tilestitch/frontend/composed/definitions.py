"""Which rule writes out which operator, by domain and name."""

from collections.abc import Callable, Mapping

from tilestitch.frontend.composed import determinants, features, grams, training, trees
from tilestitch.frontend.functions import Definition
from tilestitch.frontend.network import Node, Reading

COMPOSED: Mapping[tuple[str, str], Callable[[Node, Reading], Definition]] = {
    ("", "Det"): determinants.determinant,
    ("", "TfIdfVectorizer"): grams.gram_counts,
    ("ai.onnx.ml", "ArrayFeatureExtractor"): features.array_feature_extractor,
    ("ai.onnx.ml", "Binarizer"): features.binarizer,
    ("ai.onnx.ml", "TreeEnsemble"): trees.tree_ensemble,
    ("ai.onnx.preview.training", "Adagrad"): training.adagrad,
    ("ai.onnx.preview.training", "Adam"): training.adam,
    ("ai.onnx.preview.training", "Momentum"): training.momentum,
}
