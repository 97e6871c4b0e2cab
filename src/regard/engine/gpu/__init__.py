"""Triton kernels for NVIDIA GPUs; with TRITON_INTERPRET=1 the same kernels run on the CPU.

    sweeps      the four sweeps, and the reasons why not
    bind        a call as the kernels want it        seen     masks as bands, intervals, flags
    launch      tile shapes and launching            tile     scores and weights of one tile
    forward     output, lse, one number a row        columns  sums over queries
    top         the heaviest keys                    cells    rectangles
    pooled      maps                                 matching mass on equal marks
    diagonals   sums of diagonals                    backward gradients of q, k and v

Triton is imported by the kernels' own files, which are imported when a kernel is first launched.
"""
