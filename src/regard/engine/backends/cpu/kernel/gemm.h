/* The one matrix product: every score, output and gradient goes through `multiply`.
 *
 * C[8][PANEL] = (scale ? scale·C : 0) + A[8][depth] · B[depth][PANEL], each element one chain of
 * fused multiply-adds in ascending order. An element's bits therefore depend on its own row and
 * column alone, never on where in a tile it stands or on what else is computed with it: this is
 * what makes slices, rows, chunks and batches agree to the bit. */

#define VECTORS 2
#define PANEL (VECTORS * LANES)
#define GROUP 8

INLINE void FN(multiply)(int64_t depth, const T *a, int64_t a_row, int64_t a_step, const T *b,
                         int64_t b_step, T *c, int64_t c_row, const T *scale) {
    VEC sum[GROUP][VECTORS];
    for (int r = 0; r < GROUP; r++)
        for (int v = 0; v < VECTORS; v++)
            if (scale) sum[r][v] = FN(load)(c + r * c_row + v * LANES) * FN(splat)(scale[r]);
            else sum[r][v] = FN(splat)(0);
    for (int64_t d = 0; d < depth; d++) {
        VEC b0 = FN(load)(b + d * b_step), b1 = FN(load)(b + d * b_step + LANES);
        UNROLL_GROUP
        for (int r = 0; r < GROUP; r++) {
            VEC x = FN(splat)(a[r * a_row + d * a_step]);
            sum[r][0] += x * b0;
            sum[r][1] += x * b1;
        }
    }
    for (int r = 0; r < GROUP; r++)
        for (int v = 0; v < VECTORS; v++) FN(store)(c + r * c_row + v * LANES, sum[r][v]);
}

/* the next multiple of both PANEL and GROUP, which are powers of two: tiles are walked by either */
static inline int64_t FN(padded)(int64_t n) {
    int64_t unit = PANEL > GROUP ? PANEL : GROUP;
    return (n + unit - 1) / unit * unit;
}

/* rows (count, width) with a stride → panels [count/PANEL][width][PANEL], zeros past the end */
static void FN(pack_panels)(const T *from, int64_t stride, int64_t count, int64_t width, T *to) {
    for (int64_t first = 0; first < count; first += PANEL, to += width * PANEL) {
        int64_t here = count - first < PANEL ? count - first : PANEL;
        if (here < PANEL) memset(to, 0, sizeof(T) * width * PANEL);
        for (int64_t j = 0; j < here; j++)
            for (int64_t d = 0; d < width; d++) to[d * PANEL + j] = from[(first + j) * stride + d];
    }
}

/* rows (count, width) with a stride → rows of `wide` ≥ width numbers, zeros past the end */
static void FN(pack_rows)(const T *from, int64_t stride, int64_t count, int64_t width, T *to,
                          int64_t wide) {
    for (int64_t j = 0; j < count; j++, to += wide) {
        memcpy(to, from + j * stride, sizeof(T) * width);
        memset(to + width, 0, sizeof(T) * (wide - width));
    }
}
