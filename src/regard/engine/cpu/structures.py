"""The C structures of `kernel/regard_cpu.h`, field by field. A test compares the sizes."""

from __future__ import annotations

from ctypes import Structure, c_double, c_int64, c_void_p

MOST_POOLS = 4
MOST_MATCHES = 4
OFFSET_PARTS = 4


class KernelCall(Structure):
    """The problem and its tensors."""

    _fields_ = (
        *((n, c_int64) for n in "batch heads key_heads queries keys dim value_dim".split()),
        *((n, c_void_p) for n in "q k v".split()),
        *((n, c_int64 * 3) for n in "q_strides k_strides v_strides".split()),
        ("scale", c_double),
        ("softcap", c_double),
        ("bias_kind", c_int64),
        ("bias", c_void_p),
        ("bias_strides", c_int64 * 4),
        ("bias_shift", c_int64),
        ("bias_reach", c_int64),
        ("span_low", c_void_p),
        ("span_high", c_void_p),
        ("span_stride", c_int64),
        ("seen", c_void_p),
        ("seen_strides", c_int64 * 4),
        ("sink", c_void_p),
        ("first_query", c_int64),
        ("last_query", c_int64),
        ("distance_shift", c_int64),
        ("threads", c_int64),
        ("parallel", c_void_p),
    )


class Pool(Structure):
    """One pooled map."""

    _fields_ = (
        *((n, c_int64) for n in "cell largest segments columns".split()),
        ("cells", c_void_p),
        ("segment_of", c_void_p),
    )


class Match(Structure):
    """One mark to look for."""

    _fields_ = (
        *((n, c_void_p) for n in "query_marks key_marks".split()),
        *((n, c_int64) for n in "query_stride key_stride".split()),
        ("mass", c_void_p),
    )


class RowSweep(Structure):
    """What the row sweep measures."""

    _fields_ = (
        ("output", c_void_p),
        ("output_strides", c_int64 * 3),
        *(
            (n, c_void_p)
            for n in (
                "given_max given_log row_max row_log entropy max_score max_logit concentration "
                "distance visible"
            ).split()
        ),
        ("top_k", c_int64),
        *((n, c_void_p) for n in "top_weights top_scores top_keys".split()),
        ("pools", c_int64),
        ("pool", Pool * MOST_POOLS),
        ("matches", c_int64),
        ("match", Match * MOST_MATCHES),
    )


class ColumnSweep(Structure):
    """What the column sweep sums."""

    _fields_ = (
        *((n, c_void_p) for n in "row_max row_log chosen mass seen y".split()),
        ("width", c_int64),
        ("product", c_void_p),
        ("offsets", c_void_p),
    )


class Rectangle(Structure):
    """A rectangle of some heads."""

    _fields_ = (
        *((n, c_void_p) for n in "row_max row_log".split()),
        *((n, c_int64) for n in "units rows cols".split()),
        *((n, c_void_p) for n in "unit row col place".split()),
        ("scores", c_int64),
        ("cells", c_void_p),
    )


class Backward(Structure):
    """What the backward sweep reads and writes."""

    _fields_ = tuple(
        (n, c_void_p)
        for n in "row_max row_log grad_output shift slope grad_q grad_k grad_v mass".split()
    )
