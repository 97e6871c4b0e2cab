/* One tile of final scores: raw products, soft cap, bias and mask, for up to BLOCK_ROWS queries
 * of one head and TILE_KEYS keys. Rows are named by index, so that a block of consecutive
 * queries and a handful of scattered ones go through the same code. */

typedef struct {
    const KernelCall *call;
    int64_t batch, head;
    int64_t count;            /* rows in use; the rest of the block is zero */
    int64_t row[BLOCK_ROWS];  /* query index of each */
    int64_t low[BLOCK_ROWS], high[BLOCK_ROWS];
    int64_t lowest, highest;   /* keys that at least one row sees lie in [lowest, highest) */
    int64_t all_from, all_to;  /* keys that every row sees, as far as spans tell */
    T *q;                      /* [BLOCK_ROWS][padded dim], scaled */
    const T *k;                /* panels of all keys of the head */
} FN(Block);

INLINE T FN(key_number)(const void *cache, int64_t at, int64_t kind) {
    if (kind == BRAIN) return (T)brain_number(((const uint16_t *)cache)[at]);
    if (kind == HALF) return (T)half_number(((const uint16_t *)cache)[at]);
    return ((const T *)cache)[at];
}

/* `count` keys of a key head from `first` on → panels, from wherever they lie */
static void FN(pack_keys)(const KernelCall *c, int64_t batch, int64_t key_head, int64_t first,
                          int64_t count, T *to) {
    if (!c->k_rows) {
        const T *k = (const T *)c->k + batch * c->k_strides[0] + key_head * c->k_strides[1];
        FN(pack_panels)(k + first * c->k_strides[2], c->k_strides[2], count, c->dim, to);
        return;
    }
    for (int64_t start = 0; start < count; start += PANEL, to += c->dim * PANEL) {
        int64_t here = count - start < PANEL ? count - start : PANEL;
        if (here < PANEL) memset(to, 0, sizeof(T) * c->dim * PANEL);
        for (int64_t j = 0; j < here; j++) {
            int64_t at = c->k_rows[first + start + j] + key_head * c->k_strides[1];
            for (int64_t d = 0; d < c->dim; d++)
                to[d * PANEL + j] = FN(key_number)(c->k, at + d * c->k_step, c->k_kind);
        }
    }
}

/* rows of the block of BLOCK_ROWS that starts at `start`, within the call's range */
static void FN(take_rows)(FN(Block) *block, int64_t start) {
    const KernelCall *c = block->call;
    int64_t end = start + BLOCK_ROWS < c->last_query ? start + BLOCK_ROWS : c->last_query;
    start = start < c->first_query ? c->first_query : start;
    block->count = end - start;
    for (int64_t n = 0; n < block->count; n++) block->row[n] = start + n;
}

/* the key at which row n of the block stands */
static int64_t FN(stands_at)(const FN(Block) *block, int64_t n) {
    const KernelCall *c = block->call;
    return c->places ? c->places[block->row[n]] : block->row[n] + c->distance_shift;
}

/* what the rows of `block` may see */
static void FN(see_block)(FN(Block) *block) {
    const KernelCall *c = block->call;
    block->lowest = c->keys, block->highest = 0, block->all_from = 0, block->all_to = c->keys;
    for (int64_t n = 0; n < block->count; n++) {
        int64_t i = block->row[n], low = 0, high = c->keys;
        if (c->span_low) {
            low = c->span_low[block->batch * c->span_stride + i];
            high = c->span_high[block->batch * c->span_stride + i];
            low = low < 0 ? 0 : low;
            high = high > c->keys ? c->keys : high;
        }
        block->low[n] = low, block->high[n] = high;
        if (low < high) {
            block->lowest = low < block->lowest ? low : block->lowest;
            block->highest = high > block->highest ? high : block->highest;
        }
        block->all_from = low > block->all_from ? low : block->all_from;
        block->all_to = high < block->all_to ? high : block->all_to;
    }
}

/* reads and scales the queries of `block` */
static void FN(read_block)(FN(Block) *block) {
    const KernelCall *c = block->call;
    int64_t wide = FN(padded)(c->dim);
    memset(block->q, 0, sizeof(T) * BLOCK_ROWS * wide);
    for (int64_t n = 0; n < block->count; n++) {
        const T *from = (const T *)c->q + block->batch * c->q_strides[0] +
                        block->head * c->q_strides[1] + block->row[n] * c->q_strides[2];
        for (int64_t d = 0; d < c->dim; d++) block->q[n * wide + d] = from[d] * (T)c->scale;
    }
}

static void FN(open_block)(FN(Block) *block) {
    FN(see_block)(block);
    FN(read_block)(block);
}

/* the bias of row n for `count` keys from `first`, added to `s` */
static void FN(add_bias)(const FN(Block) *block, int64_t n, int64_t first, int64_t count, T *s) {
    const KernelCall *c = block->call;
    int64_t position = block->row[n] + c->bias_shift;
    if (c->bias_kind == BIAS_TABLE) {
        const int64_t *stride = c->bias_strides;
        const T *bias = (const T *)c->bias + block->batch * stride[0] + block->head * stride[1] +
                        block->row[n] * stride[2] + first * stride[3];
        for (int64_t j = 0; j < count; j++) s[j] += bias[j * stride[3]];
    } else if (c->bias_kind == BIAS_SLOPES) {
        T slope = ((const T *)c->bias)[block->head];
        for (int64_t j = 0; j < count; j++) {
            int64_t away = position - first - j;
            s[j] -= slope * (T)(away < 0 ? -away : away);
        }
    } else if (c->bias_kind == BIAS_BY_DISTANCE) {
        int64_t reach = c->bias_reach;
        const T *bias = (const T *)c->bias + block->head * (2 * reach + 1) + reach;
        for (int64_t j = 0; j < count; j++) {
            int64_t ahead = first + j - position;
            s[j] += bias[ahead < -reach ? -reach : ahead > reach ? reach : ahead];
        }
    }
}

/* Scores of keys [first, first + width) into s[BLOCK_ROWS][TILE_KEYS], −∞ where hidden. `width`
 * is a multiple of PANEL. `raw`, where asked for, gets each row's largest score before cap and
 * bias over visible keys; `steep` gets d(capped)/d(raw). */
static void FN(score_tile)(const FN(Block) *block, int64_t first, int64_t width, T *s, T *raw,
                           T *steep) {
    const KernelCall *c = block->call;
    int64_t wide = FN(padded)(c->dim);
    for (int64_t p = 0; p < width; p += PANEL)
        for (int64_t n = 0; n < block->count; n += GROUP)
            FN(multiply)(c->dim, block->q + n * wide, wide, 1, block->k + (first + p) * c->dim,
                         PANEL, s + n * TILE_KEYS + p, TILE_KEYS, NULL);
    int plain = c->softcap == 0 && c->bias_kind == NO_BIAS;
    int hidden = c->seen || first < block->all_from || first + width > block->all_to;
    if (plain && !hidden) return; /* raw equals the row's own maximum: the caller has it */
    int64_t real = c->keys - first < width ? c->keys - first : width;
    T before[TILE_KEYS];
    for (int64_t n = 0; n < block->count; n++) {
        T *row = s + n * TILE_KEYS;
        if (!plain && raw) memcpy(before, row, sizeof(T) * width);
        if (c->softcap != 0) {
            VEC cap = FN(splat)((T)c->softcap);
            for (int64_t j = 0; j < width; j += LANES) {
                VEC t = FN(tanh_of)(FN(load)(row + j) / cap);
                FN(store)(row + j, cap * t);
                if (steep) FN(store)(steep + n * TILE_KEYS + j, FN(splat)(1) - t * t);
            }
        }
        if (c->bias_kind != NO_BIAS) FN(add_bias)(block, n, first, real, row);
        if (hidden) {
            int64_t from = block->low[n] - first, to = block->high[n] - first;
            from = from < 0 ? 0 : from > width ? width : from;
            to = to < from ? from : to > width ? width : to;
            for (int64_t j = 0; j < from; j++) row[j] = -INFINITY;
            for (int64_t j = to; j < width; j++) row[j] = -INFINITY;
            if (c->seen) {
                const int64_t *stride = c->seen_strides;
                const uint8_t *seen = c->seen + block->batch * stride[0] +
                                      block->head * stride[1] +
                                      (block->row[n] - c->first_query) * stride[2] +
                                      first * stride[3];
                for (int64_t j = from; j < to; j++)
                    if (!seen[j * stride[3]]) row[j] = -INFINITY;
            }
        }
        if (!plain && raw)
            for (int64_t j = 0; j < real; j++)
                if (row[j] != -INFINITY && raw[n] == raw[n] && !(before[j] <= raw[n]))
                    raw[n] = before[j];
    }
}

/* what a tile needs to know of its row to turn scores into weights */
INLINE VEC FN(weights_of)(VEC s, T row_max, T row_log) {
    return FN(exp_capped)((s - FN(splat)(row_max)) - FN(splat)(row_log));
}
