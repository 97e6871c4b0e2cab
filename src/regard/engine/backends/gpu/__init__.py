"""Triton kernels for NVIDIA GPUs; with TRITON_INTERPRET=1 the same kernels run on the CPU.

    sweeps      the four sweeps, and the reasons why not
    bind        a call as the kernels want it        launch   tile shapes, launching
    seen        masks as bands, intervals, flags     spelt    any other mask as bits
    tile        scores and weights of one tile       cells    rectangles
    forward     output, lse, one number a row        decode   the same for a few queries
    replay      received mass and maps               maps     a map's cells in one tile
    columns     Aᵀ @ y, counts, diagonals            top      the heaviest keys, of all
    wanted      which blocks of keys rows want       prune    the heaviest keys by block maxima
    few         what kept scores of few queries tell backward gradients of q, k and v
    again       sweeps repeated as they were         steps    what they did
    driver      launches by CUDA itself              hopper   the forward for Hopper GPUs

Triton is imported by the kernels' own files, which are imported when a kernel is first launched.
"""
