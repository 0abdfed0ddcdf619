"""The geometry of a kernel: its shape, its loop nest as arrays, the boxes of a tile, its division among cores."""
