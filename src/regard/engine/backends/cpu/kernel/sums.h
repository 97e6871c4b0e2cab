/* Sums over queries: what a tile of scores adds to them, with the rows' final lse known. The column
 * sweep computes its scores again, the row sweep may have kept them: both add in this one order,
 * rows to their block and blocks, ascending, to the whole. So their sums have the same bits. */

typedef struct {
    T mass[TILE_KEYS];                  /* of the block's rows, by key */
    T largest[TILE_KEYS];               /* of their weights; NaN where one is */
    INT seen[TILE_KEYS];                /* how many of them see it */
    T diagonal[TILE_KEYS + BLOCK_ROWS]; /* j − i ascending; rows that are not there leave zeros */
} FN(TileSums);

/* scores s[BLOCK_ROWS][TILE_KEYS] of `width` keys → sums, of weights × by[BLOCK_ROWS] where that is
 * given; weights stay in s where they are kept */
static void FN(sum_tile)(const FN(Block) *block, T *s, int64_t width, const T *row_max,
                         const T *row_log, const T *by, const QuerySums *ask, int keep,
                         FN(TileSums) *to) {
    int64_t last = block->row[0] / BLOCK_ROWS * BLOCK_ROWS + BLOCK_ROWS - 1;
    memset(to, 0, sizeof *to);
    for (int64_t n = 0; n < block->count; n++) {
        T *row = s + n * TILE_KEYS, m = row_max[n], log_l = row_log[n];
        if (m == -INFINITY) { /* sees nothing: exp(−∞ + ∞) is not a weight */
            if (keep) memset(row, 0, sizeof(T) * width);
            continue;
        }
        if (ask->seen)
            for (int64_t j = 0; j < width; j += LANES)
                *(IVEC *)(to->seen + j) -= FN(load)(row + j) != FN(splat)(-INFINITY);
        T *along = to->diagonal + (last - block->row[n]);
        for (int64_t j = 0; j < width; j += LANES) {
            VEC p = FN(weights_of)(FN(load)(row + j), m, log_l);
            VEC part = p;
            if (by) part = p * FN(splat)(by[n]);
            FN(store)(to->mass + j, FN(load)(to->mass + j) + part);
            if (ask->largest) {
                VEC most = FN(load)(to->largest + j);
                FN(store)(to->largest + j, FN(select)((part > most) | (part != part), part, most));
            }
            if (ask->offsets) FN(store)(along + j, FN(load)(along + j) + p);
            if (keep) FN(store)(row + j, p);
        }
    }
}

/* … of `real` keys from `first` on, to where they belong. A diagonal crosses blocks and tiles in
 * ascending order of both: whichever are walked first, its numbers come in the same order. */
static void FN(add_sums)(const FN(Block) *block, const FN(TileSums) *from, int64_t first,
                         int64_t real, const QuerySums *ask) {
    const KernelCall *c = block->call;
    int64_t unit = block->batch * c->heads + block->head, at = unit * c->keys + first;
    if (ask->mass)
        for (int64_t j = 0; j < real; j++) ask->mass[at + j] += from->mass[j];
    if (ask->largest)
        for (int64_t j = 0; j < real; j++) {
            T p = from->largest[j];
            if (p > ask->largest[at + j] || p != p) ask->largest[at + j] = p;
        }
    if (ask->seen)
        for (int64_t j = 0; j < real; j++) ask->seen[at + j] += from->seen[j];
    if (!ask->offsets) return;
    int64_t start = block->row[0] / BLOCK_ROWS * BLOCK_ROWS, all = c->queries + c->keys - 1;
    int64_t lowest = first - (start + BLOCK_ROWS - 1) + c->queries - 1;
    double *to = ask->offsets + (unit * OFFSET_PARTS + first / TILE_KEYS % OFFSET_PARTS) * all;
    for (int64_t x = lowest < 0 ? -lowest : 0; x < real + BLOCK_ROWS - 1; x++) {
        if (lowest + x >= all) break;
        to[lowest + x] += from->diagonal[x];
    }
}
