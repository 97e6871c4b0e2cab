"""Triton kernels for NVIDIA GPUs; with TRITON_INTERPRET=1 the same kernels run on the CPU.

    sweeps      the four sweeps, and the reasons why not
    bind        a call as the kernels want it        seen     masks as bands, intervals, flags
    spelt       any other mask as bits
    launch      tile shapes and launching            tile     scores and weights of one tile
    forward     output, lse, one number a row        decode   the same for a few queries
    replay      received mass and maps               columns  Aᵀ @ y
    counts      how many queries see a key           pooled   maps of odd cells
    wanted      blocks that may hold heavy keys      prune    the heaviest keys among them
    top         … by looking at every key            cells    rectangles
    matching    mass on equal marks                  diagonals  sums of diagonals
    backward    gradients of q, k and v              hopper   the forward for Hopper GPUs

Triton is imported by the kernels' own files, which are imported when a kernel is first launched.
"""
