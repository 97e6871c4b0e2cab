/* Vectors of T and the functions the softmax needs. Included once per element type and
 * instruction set, with T, INT, LANES and FN(name) defined. Compiler vector extensions only, so
 * that one text serves AVX-512, AVX2, SSE2 and NEON. */

typedef T FN(vec) __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));
typedef INT FN(ivec) __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));
#define VEC FN(vec)
#define IVEC FN(ivec)

INLINE VEC FN(load)(const T *p) { return *(const VEC *)p; }
INLINE void FN(store)(T *p, VEC x) { *(VEC *)p = x; }
INLINE VEC FN(splat)(T x) { return x - (VEC){0}; }
INLINE VEC FN(select)(IVEC where, VEC yes, VEC no) {
    return (VEC)((where & (IVEC)yes) | (~where & (IVEC)no));
}
/* keeps NaN wherever it stands in `x` */
INLINE VEC FN(larger)(VEC x, VEC than) { return FN(select)(x < than, than, x); }

INLINE T FN(sum_lanes)(VEC x) {
    T part[LANES];
    FN(store)(part, x);
    for (int width = LANES / 2; width; width /= 2)
        for (int n = 0; n < width; n++) part[n] += part[n + width];
    return part[0];
}
INLINE T FN(max_lanes)(VEC x) {
    T part[LANES];
    FN(store)(part, x);
    for (int width = LANES / 2; width; width /= 2)
        for (int n = 0; n < width; n++)
            part[n] = part[n] < part[n + width] ? part[n + width] : part[n];
    return part[0];
}

/* exp(x) − 1 = 2ⁿ·q + (2ⁿ − 1) with x = n·log 2 + r, q = exp(r) − 1 = r + r²·poly(r). */
INLINE VEC FN(reduce)(VEC x, VEC *power) {
    VEC shifted = x * FN(splat)((T)1.4426950408889634) + FN(splat)(ROUNDER);
    VEC n = shifted - FN(splat)(ROUNDER);
    IVEC whole = (IVEC)shifted - (IVEC)FN(splat)(ROUNDER);
    VEC r = x - n * FN(splat)(LOG2_HIGH);
    r = r - n * FN(splat)(LOG2_LOW);
    *power = (VEC)((whole + EXPONENT_BIAS) << MANTISSA_BITS);
    VEC poly = FN(splat)(EXP_COEFFICIENTS[0]);
    for (int c = 1; c < EXP_TERMS; c++) poly = poly * r + FN(splat)(EXP_COEFFICIENTS[c]);
    return poly * (r * r) + r;
}
/* x ≤ LARGEST_EXPONENT. Below SMALLEST_EXPONENT, and for −∞, the result is exactly 0 and *x
 * becomes 0 too, so that x·exp(x) is 0 and not −∞·0. NaN stays NaN. */
INLINE VEC FN(exp_of)(VEC *x) {
    IVEC gone = *x < FN(splat)(SMALLEST_EXPONENT);
    *x = FN(select)(gone, FN(splat)(0), *x);
    VEC power, q = FN(reduce)(*x, &power);
    return FN(select)(gone, FN(splat)(0), q * power + power);
}
/* for exponents that may come out above 0: an lse that somebody else gave */
INLINE VEC FN(exp_capped)(VEC x) {
    x = FN(select)(x > FN(splat)(LARGEST_EXPONENT), FN(splat)(LARGEST_EXPONENT), x);
    return FN(exp_of)(&x);
}
/* tanh(x) = e/(e + 2) with e = exp(2x) − 1, accurate near 0 as well */
INLINE VEC FN(tanh_of)(VEC x) {
    VEC twice = x + x, most = FN(splat)(44);
    twice = FN(select)(twice > most, most, FN(select)(twice < -most, -most, twice));
    VEC power, q = FN(reduce)(twice, &power);
    VEC e = q * power + (power - FN(splat)(1));
    return e / (e + FN(splat)(2));
}
