"""Operators of onnxruntime's own domain, `com.microsoft`, which its optimiser and its exporters write."""
