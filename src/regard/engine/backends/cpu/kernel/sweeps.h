/* The sweeps for one element type and instruction set; afterwards the names are free again. */

INLINE VEC FN(lane_numbers)(void) {
    VEC x;
    for (int n = 0; n < LANES; n++) x[n] = n;
    return x;
}
#include "gemm.h"
#include "tile.h"
#include "sums.h"
#include "rows.h"
#include "columns.h"
#include "cells.h"
#include "backward.h"

#undef T
#undef INT
#undef LANES
#undef FN
#undef EXP
#undef LOG
#undef TINY
#undef ROUNDER
#undef LOG2_HIGH
#undef LOG2_LOW
#undef EXPONENT_BIAS
#undef MANTISSA_BITS
#undef SMALLEST_EXPONENT
#undef LARGEST_EXPONENT
#undef EXP_COEFFICIENTS
#undef EXP_TERMS
#undef VEC
#undef IVEC
#undef VECTORS
#undef PANEL
#undef GROUP
#undef PUT
#undef WHOLE
