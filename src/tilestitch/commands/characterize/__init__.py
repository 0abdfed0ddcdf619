"""How the block model of a machine answers to the size, the channels and the windows of layers (docs/dlfusion.md)."""
