"""Triton kernels for the sub-graphs of a schedule, as Python modules that need nothing but torch and Triton.

Every kernel follows from the affine accesses of its operators. `launch` chooses what one program of the grid makes,
`values` asks backwards from there for what it takes, and `products` and `reductions` answer for their kinds.
"""
