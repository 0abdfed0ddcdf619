"""Programs for CNML, the library of operators of the MLU100 (docs/dlfusion.md#code)."""
