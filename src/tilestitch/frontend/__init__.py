"""Readers of networks: an ONNX model becomes a `Graph` whose operators are loop nests.

`reader.read_onnx` is the entrance. One small handler per ONNX operator, listed in `handlers`, writes the loop nests;
whatever depends on nothing but constants is evaluated while reading.
"""
