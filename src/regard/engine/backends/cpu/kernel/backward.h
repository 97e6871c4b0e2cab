/* The gradient of output, lse and entropy with respect to q, k and v: weights are computed
 * again tile by tile, so that memory stays O(N). A work item owns one key head and all query
 * heads that share it; nothing is added by two threads. */

typedef struct {
    FN(Block) block;
    T *memory, *panels;             /* all of it; keys as panels */
    T *key_rows, *value_panels;     /* [keys][wide], panels of values */
    T *s, *ds, *steep;              /* tiles: weights, gradient of scores, slope of the cap */
    T *grad, *q_sum;                /* [BLOCK_ROWS][v_wide], [BLOCK_ROWS][wide] */
    T *k_sum, *v_sum;               /* [keys][wide], [keys][v_wide] */
} FN(BackwardState);

/* from scores and dP to weights (in s) and dS (in ds) */
static void FN(turn_tile)(FN(BackwardState) *w, const Backward *ask, int64_t width) {
    const FN(Block) *block = &w->block;
    const KernelCall *c = block->call;
    for (int64_t n = 0; n < block->count; n++) {
        int64_t r = (block->batch * c->heads + block->head) * c->queries + block->row[n];
        T m = ((const T *)ask->row_max)[r], log_l = ((const T *)ask->row_log)[r];
        VEC shift = FN(splat)(((const T *)ask->shift)[r]);
        VEC slope = FN(splat)(ask->slope ? ((const T *)ask->slope)[r] : 0);
        T *s = w->s + n * TILE_KEYS, *ds = w->ds + n * TILE_KEYS;
        if (m == -INFINITY) { /* sees nothing */
            memset(s, 0, sizeof(T) * width), memset(ds, 0, sizeof(T) * width);
            continue;
        }
        for (int64_t j = 0; j < width; j += LANES) {
            VEC u = (FN(load)(s + j) - FN(splat)(m)) - FN(splat)(log_l);
            VEC p = FN(exp_capped)(u);
            IVEC none = p == FN(splat)(0);
            VEC d = p * (FN(load)(ds + j) - shift - slope * FN(select)(none, FN(splat)(0), u));
            d = FN(select)(none, FN(splat)(0), d);
            if (c->softcap != 0) d = d * FN(load)(w->steep + n * TILE_KEYS + j);
            FN(store)(s + j, p);
            FN(store)(ds + j, d);
        }
    }
}

/* what each of `real` keys received from the block's rows, once s holds weights; added up in the
 * order of the column sweep */
static void FN(add_mass)(const FN(BackwardState) *w, int64_t real, double *mass) {
    T column[TILE_KEYS];
    for (int64_t j = 0; j < FN(padded)(real); j += LANES) {
        VEC sum = FN(splat)(0);
        for (int64_t n = 0; n < w->block.count; n++)
            sum = sum + FN(load)(w->s + n * TILE_KEYS + j);
        FN(store)(column + j, sum);
    }
    for (int64_t j = 0; j < real; j++) mass[j] += column[j];
}

static void FN(backward_block)(FN(BackwardState) *w, const Backward *ask) {
    FN(Block) *block = &w->block;
    const KernelCall *c = block->call;
    int64_t wide = FN(padded)(c->dim), v_wide = FN(padded)(c->value_dim);
    T ones[GROUP];
    for (int r = 0; r < GROUP; r++) ones[r] = 1;
    FN(open_block)(block);
    memset(w->grad, 0, sizeof(T) * BLOCK_ROWS * v_wide);
    memset(w->q_sum, 0, sizeof(T) * BLOCK_ROWS * wide);
    int64_t at = (block->batch * c->heads + block->head) * c->queries;
    for (int64_t n = 0; n < block->count && c->value_dim; n++)
        memcpy(w->grad + n * v_wide,
               (const T *)ask->grad_output + (at + block->row[n]) * c->value_dim,
               sizeof(T) * c->value_dim);
    for (int64_t first = block->lowest / TILE_KEYS * TILE_KEYS; first < block->highest;
         first += TILE_KEYS) {
        int64_t real = c->keys - first < TILE_KEYS ? c->keys - first : TILE_KEYS;
        if (block->highest - first < real) real = block->highest - first;
        int64_t width = FN(padded)(real);
        FN(score_tile)(block, first, width, w->s, NULL, w->steep);
        for (int64_t p = 0; p < width; p += PANEL)
            for (int64_t n = 0; n < block->count; n += GROUP)
                FN(multiply)(c->value_dim, w->grad + n * v_wide, v_wide, 1,
                             w->value_panels + (first + p) * c->value_dim, PANEL,
                             w->ds + n * TILE_KEYS + p, TILE_KEYS, NULL);
        FN(turn_tile)(w, ask, width);
        if (ask->mass)
            FN(add_mass)(w, real,
                         ask->mass + (block->batch * c->heads + block->head) * c->keys + first);
        for (int64_t x = 0; x < wide; x += PANEL) {
            for (int64_t n = 0; n < block->count; n += GROUP)
                FN(multiply)(real, w->ds + n * TILE_KEYS, TILE_KEYS, 1,
                             w->key_rows + first * wide + x, wide, w->q_sum + n * wide + x, wide,
                             ones);
            for (int64_t j = 0; j < width; j += GROUP)
                FN(multiply)(block->count, w->ds + j, 1, TILE_KEYS, block->q + x, wide,
                             w->k_sum + (first + j) * wide + x, wide, ones);
        }
        for (int64_t x = 0; x < v_wide; x += PANEL)
            for (int64_t j = 0; j < width; j += GROUP)
                FN(multiply)(block->count, w->s + j, 1, TILE_KEYS, w->grad + x, v_wide,
                             w->v_sum + (first + j) * v_wide + x, v_wide, ones);
    }
    for (int64_t n = 0; n < block->count; n++)
        for (int64_t d = 0; d < c->dim; d++)
            ((T *)ask->grad_q)[(at + block->row[n]) * c->dim + d] =
                w->q_sum[n * wide + d] * (T)c->scale;
}

static FN(BackwardState) *FN(open_backward)(const KernelCall *c) {
    int64_t wide = FN(padded)(c->dim), v_wide = FN(padded)(c->value_dim);
    int64_t keys = FN(padded)(c->keys), tile = BLOCK_ROWS * TILE_KEYS;
    FN(BackwardState) *w = take(sizeof *w);
    T *next = take(sizeof(T) * (keys * (c->dim + c->value_dim + 2 * wide + v_wide) +
                                BLOCK_ROWS * (2 * wide + v_wide) + 3 * tile));
    if (!w || !next) {
        free(w), free(next);
        return NULL;
    }
    w->memory = w->panels = next, next += keys * c->dim;
    w->value_panels = next, next += keys * c->value_dim;
    w->key_rows = next, next += keys * wide;
    w->k_sum = next, next += keys * wide;
    w->v_sum = next, next += keys * v_wide;
    w->block.q = next, next += BLOCK_ROWS * wide;
    w->q_sum = next, next += BLOCK_ROWS * wide;
    w->grad = next, next += BLOCK_ROWS * v_wide;
    w->s = next, w->ds = next + tile, w->steep = next + 2 * tile;
    w->block.call = c, w->block.k = w->panels;
    return w;
}

static int FN(backward_item)(const void *call, const void *asked, int64_t unit, int64_t parts,
                             void **state) {
    const KernelCall *c = call;
    const Backward *ask = asked;
    (void)parts;
    FN(BackwardState) *w = *state ? *state : (*state = FN(open_backward)(c));
    if (!w) return 1;
    int64_t group = c->heads / c->key_heads;
    int64_t batch = unit / c->key_heads, key_head = unit % c->key_heads;
    int64_t wide = FN(padded)(c->dim), v_wide = FN(padded)(c->value_dim);
    const T *k = (const T *)c->k + batch * c->k_strides[0] + key_head * c->k_strides[1];
    const T *v = (const T *)c->v + batch * c->v_strides[0] + key_head * c->v_strides[1];
    memset(w->k_sum, 0, sizeof(T) * FN(padded)(c->keys) * (wide + v_wide));
    FN(pack_panels)(k, c->k_strides[2], c->keys, c->dim, w->panels);
    FN(pack_rows)(k, c->k_strides[2], c->keys, c->dim, w->key_rows, wide);
    if (c->value_dim) FN(pack_panels)(v, c->v_strides[2], c->keys, c->value_dim, w->value_panels);
    w->block.batch = batch;
    for (int64_t head = key_head * group; head < (key_head + 1) * group; head++)
        for (int64_t start = c->first_query / BLOCK_ROWS * BLOCK_ROWS; start < c->last_query;
             start += BLOCK_ROWS) {
            w->block.head = head;
            FN(take_rows)(&w->block, start);
            FN(backward_block)(w, ask);
        }
    for (int64_t j = 0; j < c->keys; j++) {
        T *to = (T *)ask->grad_k + (unit * c->keys + j) * c->dim;
        for (int64_t d = 0; d < c->dim; d++) to[d] += w->k_sum[j * wide + d];
        to = (T *)ask->grad_v + (unit * c->keys + j) * c->value_dim;
        for (int64_t d = 0; d < c->value_dim; d++) to[d] += w->v_sum[j * v_wide + d];
    }
    return 0;
}

static void FN(close_backward)(void *state) {
    FN(BackwardState) *w = state;
    if (w) free(w->memory), free(w);
}
