"""Handlers of ONNX operators: each writes the loop nest of one kind of node; `handlers` has the table."""
