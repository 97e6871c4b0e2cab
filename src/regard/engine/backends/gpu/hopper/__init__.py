"""The forward sweep for Hopper GPUs (compute capability 9), written in Gluon.

    sweeps    the Triton sweeps with this forward; the reasons why not
    forward   launching it                          walk      which tiles a program visits
    kernel    one producer, two consumers           finish    a row's numbers, once it is through
    fold      one tile of scores into running rows  gluon     what differs between releases
    work      what these parts hand each other

A warp copies tiles of keys and values into shared memory, and two groups of four warps, 64 queries
each, multiply: the product of one tile's weights with its values runs beside the next tile's
scores, and the softmax under both.
"""
