/* The row sweep: online softmax over key tiles, and every statistic that fits into it.
 *
 * With u = s − m, δ = m_old − m_new, a = exp(δ):
 *     l ← a·l + Σ exp(u)                    t ← a·(t + δ·l_old) + Σ u·exp(u)
 *     lse = m + log l                       entropy = log l − t/l
 * Sums of squares scale by a², means under the weights by a.
 *
 * Sums over queries need every row's lse: the scores of a block are kept until its rows are through
 * (BLOCK_ROWS times the keys, whatever the number of queries), and weights are made of them as the
 * column sweep makes them. Threads that share a head add their blocks in turn. */

typedef struct {
    FN(Block) block;
    T *memory;
    int64_t packed;                /* which key head the panels hold */
    T *panels, *values, *s, *sum;  /* keys, values, one tile, the output being built */
    T *scores;                     /* of this tile: s itself, or kept */
    T *kept;                       /* [tiles][BLOCK_ROWS][TILE_KEYS] */
    FN(TileSums) *sums;            /* [tiles], over the block's rows */
    const T *v;                    /* value rows, in place where their layout allows it */
    int64_t v_row;
    T largest[BLOCK_ROWS], total[BLOCK_ROWS], centred[BLOCK_ROWS];
    T squares[BLOCK_ROWS], away[BLOCK_ROWS], raw[BLOCK_ROWS], shrink[BLOCK_ROWS];
    T final_max[BLOCK_ROWS], final_log[BLOCK_ROWS]; /* the lse that weights refer to */
    T matched[MOST_MATCHES][BLOCK_ROWS];
    int64_t count[BLOCK_ROWS];
    T *top_score;      /* [BLOCK_ROWS][k], descending */
    int64_t *top_key;
    T *pooled[MOST_POOLS];  /* [BLOCK_ROWS][columns]: sums, or largest scores */
    T *tile_max;            /* [tiles][BLOCK_ROWS]: the maximum each tile's sums refer to */
} FN(RowState);

/* put a score into a row's descending list; equal scores keep the lower key first */
static void FN(insert)(T *score, int64_t *key, int64_t k, T s, int64_t j) {
    int64_t at = k - 1;
    for (; at > 0 && score[at - 1] < s; at--) score[at] = score[at - 1], key[at] = key[at - 1];
    score[at] = s, key[at] = j;
}

/* the k-th largest of a vector's lanes, k ≤ LANES */
INLINE T FN(kth_of_lanes)(VEC x, int64_t k) {
    T lane[LANES];
    FN(store)(lane, x);
    IVEC larger = (IVEC){0}; /* how many lanes exceed each */
    for (int n = 0; n < LANES; n++) larger -= FN(splat)(lane[n]) > x;
    VEC rest = FN(select)(larger < (INT)k, -x, FN(splat)(-INFINITY));
    return -FN(max_lanes)(rest);
}

/* A row that has no k keys yet would take in nearly every score of its first tile. But k lanes
 * of the tile reach the k-th largest of the lanes' maxima: nothing below that is among the best. */
static T FN(first_bound)(const T *s, int64_t k, int64_t width) {
    VEC most = FN(load)(s);
    for (int64_t j = LANES; j < width; j += LANES) most = FN(larger)(FN(load)(s + j), most);
    T bound = FN(kth_of_lanes)(most, k);
    return bound - (bound < 0 ? -bound : bound) * TINY - (T)1e-30; /* below it: equals must pass */
}

static void FN(watch_top)(FN(RowState) *w, int64_t n, int64_t k, int64_t first, int64_t width) {
    const T *s = w->scores + n * TILE_KEYS;
    T *score = w->top_score + n * k, bound = score[k - 1];
    if (bound == -INFINITY && k <= LANES) bound = FN(first_bound)(s, k, width);
    for (int64_t j = 0; j < width; j += LANES)
        for (uint32_t bits = FN(above)(s + j, bound); bits; bits &= bits - 1) {
            int64_t lane = __builtin_ctz(bits);
            if (!(s[j + lane] > bound)) continue; /* the bound rose since */
            FN(insert)(score, w->top_key + n * k, k, s[j + lane], first + j + lane);
            bound = score[k - 1] > bound ? score[k - 1] : bound;
        }
}

/* comparisons pass NaN by: −∞, or NaN where a row that seems to see nothing holds one */
static T FN(nothing_or_nan)(const T *s, int64_t width) {
    for (int64_t j = 0; j < width; j++)
        if (s[j] != s[j]) return s[j];
    return -INFINITY;
}

/* one row of one tile: of scores, weights in s relative to the row's running maximum */
INLINE void FN(fold_row)(FN(RowState) *w, int64_t n, int64_t first, int64_t width, int measured) {
    const T *s = w->scores + n * TILE_KEYS;
    T *to = w->s + n * TILE_KEYS;
    VEC most = FN(load)(s);
    for (int64_t j = LANES; j < width; j += LANES) most = FN(larger)(FN(load)(s + j), most);
    T old = w->largest[n], peak = FN(max_lanes)(most), now = peak > old ? peak : old;
    if (now == -INFINITY) now = FN(nothing_or_nan)(s, width);
    if (now == -INFINITY) { /* nothing seen yet: the tile adds nothing */
        memset(to, 0, sizeof(T) * width);
        w->shrink[n] = 1;
        return;
    }
    T shift = old - now, a = old == -INFINITY ? 0 : EXP(shift);
    VEC m = FN(splat)(now), l = FN(splat)(0), t = l, squares = l, away = l;
    int64_t here = FN(stands_at)(&w->block, n);
    for (int64_t j = 0; j < width; j += LANES) {
        VEC u = FN(load)(s + j) - m;
        VEC p = FN(exp_of)(&u);
        l += p;
        FN(store)(to + j, p);
        if (!measured) continue;
        t += p * u;
        squares += p * p;
        VEC gap = FN(splat)((T)(here - first - j)) - FN(lane_numbers)();
        away += p * FN(larger)(gap, -gap);
    }
    T before = w->total[n];
    w->total[n] = a * before + FN(sum_lanes)(l);
    w->largest[n] = now;
    w->shrink[n] = a;
    if (!measured) return;
    w->centred[n] = (before > 0 ? a * (w->centred[n] + shift * before) : 0) + FN(sum_lanes)(t);
    w->squares[n] = a * a * w->squares[n] + FN(sum_lanes)(squares);
    w->away[n] = a * w->away[n] + FN(sum_lanes)(away);
}

/* `cells` whole cells of a compile-time size: their sums, or their largest scores */
INLINE void FN(pool_whole)(const T *s, int64_t cells, int cell, int largest, T *to) {
    for (int64_t x = 0; x < cells; x++, s += cell) {
        if (cell < LANES) {
            T one = s[0];
            for (int n = 1; n < cell; n++) one = largest ? (s[n] > one ? s[n] : one) : one + s[n];
            to[x] = one;
        } else {
            VEC many = FN(load)(s);
            for (int n = LANES; n < cell; n += LANES) {
                VEC more = FN(load)(s + n);
                if (largest) many = FN(larger)(more, many);
                else many += more;
            }
            to[x] = largest ? FN(max_lanes)(many) : FN(sum_lanes)(many);
        }
    }
}

#define WHOLE(size) \
    case size:      \
        if (pool->largest) FN(pool_whole)(s, real / size, size, 1, cells); \
        else FN(pool_whole)(s, real / size, size, 0, cells);               \
        return;

/* cell sums (of weights relative to the running maximum) or cell maxima (of scores) */
static void FN(pool_row)(FN(RowState) *w, int64_t n, const Pool *pool, T *cells, int64_t first,
                         int64_t real) {
    const T *s = (pool->largest ? w->scores : w->s) + n * TILE_KEYS;
    cells += n * pool->columns + first / pool->cell;
    if (TILE_KEYS % pool->cell == 0 && real % pool->cell == 0) switch (pool->cell) {
            WHOLE(1) WHOLE(2) WHOLE(4) WHOLE(8) WHOLE(16) WHOLE(32) WHOLE(64) WHOLE(128)
        }
    /* any other size: a cell may begin in an earlier tile and go on in later ones */
    int begun = first > w->block.lowest && first % pool->cell != 0;
    int64_t stop = (first / pool->cell + 1) * pool->cell - first;
    for (int64_t j = 0; j < real; j = stop, stop += pool->cell, cells++, begun = 0) {
        int64_t end = stop < real ? stop : real, x = j;
        if (pool->largest) {
            T most = begun ? *cells : -INFINITY;
            for (; x < end; x++) most = s[x] > most ? s[x] : most;
            *cells = most;
            continue;
        }
        VEC sums = FN(splat)(0);
        T sum = begun ? *cells * w->shrink[n] : 0; /* brought to the new maximum */
        for (; x + LANES <= end; x += LANES) sums += FN(load)(s + x);
        for (; x < end; x++) sum += s[x];
        *cells = sum + FN(sum_lanes)(sums);
    }
}

/* Σ s[j] over the first `count` keys that carry this mark */
static T FN(mass_of_mark)(const T *s, const INT *marks, INT mark, int64_t count) {
    VEC sums = FN(splat)(0);
    int64_t j = 0;
    for (; j + LANES <= count; j += LANES)
        sums += (VEC)((*(const IVEC *)(marks + j) == mark) & (IVEC)FN(load)(s + j));
    T sum = FN(sum_lanes)(sums);
    for (; j < count; j++) sum += marks[j] == mark ? s[j] : 0;
    return sum;
}

/* only keys before the query's own position count */
static void FN(match_row)(FN(RowState) *w, int64_t n, int64_t m, const Match *match,
                          int64_t first, int64_t real) {
    const FN(Block) *block = &w->block;
    int64_t before = FN(stands_at)(block, n) - first;
    int64_t count = before < real ? before : real;
    T *mass = &w->matched[m][n];
    *mass *= w->shrink[n];
    if (count <= 0) return;
    const INT *query = (const INT *)match->query_marks + block->batch * match->query_stride;
    const INT *key = (const INT *)match->key_marks + block->batch * match->key_stride + first;
    *mass += FN(mass_of_mark)(w->s + n * TILE_KEYS, key, query[block->row[n]], count);
}

static void FN(fold_tile)(FN(RowState) *w, const RowSweep *ask, int64_t first, int64_t real,
                          int measured) {
    FN(Block) *block = &w->block;
    int64_t width = FN(padded)(real);
    for (int64_t n = 0; n < block->count; n++) {
        if (ask->top_k) FN(watch_top)(w, n, ask->top_k, first, width);
        for (int64_t p = 0; p < ask->pools; p++)
            if (ask->pool[p].largest)
                FN(pool_row)(w, n, ask->pool + p, w->pooled[p], first, real);
        if (ask->visible)
            for (int64_t j = 0; j < width; j++)
                w->count[n] += w->scores[n * TILE_KEYS + j] != -INFINITY;
        if (measured) FN(fold_row)(w, n, first, width, 1);
        else FN(fold_row)(w, n, first, width, 0);
        for (int64_t p = 0; p < ask->pools; p++)
            if (!ask->pool[p].largest)
                FN(pool_row)(w, n, ask->pool + p, w->pooled[p], first, real);
        for (int64_t m = 0; m < ask->matches; m++)
            FN(match_row)(w, n, m, ask->match + m, first, real);
        if (ask->pools) w->tile_max[first / TILE_KEYS * BLOCK_ROWS + n] = w->largest[n];
    }
}

/* add the sink, one more key with a score but no value */
static void FN(join_sink)(FN(RowState) *w, int64_t n, T sink) {
    T now = w->largest[n] > sink ? w->largest[n] : sink;
    if (now == -INFINITY) return;
    T shift = w->largest[n] - now, a = w->total[n] > 0 ? EXP(shift) : 0, p = EXP(sink - now);
    w->centred[n] = (a > 0 ? a * (w->centred[n] + shift * w->total[n]) : 0)
                  + (p > 0 ? p * (sink - now) : 0); /* a sink of −∞ weighs nothing */
    w->total[n] = a * w->total[n] + p;
    w->squares[n] *= a * a, w->away[n] *= a;
    for (int64_t m = 0; m < MOST_MATCHES; m++) w->matched[m][n] *= a;
    w->largest[n] = now;
    w->shrink[n] = a;
}

#define PUT(field, value) \
    if (ask->field) ((T *)ask->field)[at] = (value)

static void FN(close_rows)(FN(RowState) *w, const RowSweep *ask) {
    const FN(Block) *block = &w->block;
    const KernelCall *c = block->call;
    int64_t wide = FN(padded)(c->value_dim);
    for (int64_t n = 0; n < block->count; n++) {
        int64_t i = block->row[n];
        int64_t at = (block->batch * c->heads + block->head) * c->queries + i;
        /* a maximum passes NaN by, a sum does not */
        T seen_max = w->total[n] != w->total[n] && w->largest[n] < INFINITY ? w->total[n]
                                                                            : w->largest[n];
        w->shrink[n] = 1;
        if (c->sink) FN(join_sink)(w, n, ((const T *)c->sink)[block->head]);
        T l = w->total[n], log_l = LOG(l), inverse = l == 0 ? 0 : 1 / l;
        T m = w->final_max[n] = ask->given_max ? ((const T *)ask->given_max)[at] : w->largest[n];
        T to_m = w->final_log[n] = ask->given_log ? ((const T *)ask->given_log)[at] : log_l;
        /* what a weight relative to the running maximum is worth, as every later sweep has it */
        T share = m == -INFINITY || l == 0 ? 0 : EXP((w->largest[n] - m) - to_m);
        PUT(row_max, w->largest[n]);
        PUT(row_log, l == 0 ? 0 : log_l);
        PUT(entropy, l == 0 ? 0 : log_l - w->centred[n] * inverse);
        PUT(max_logit, seen_max);
        PUT(max_score, c->softcap == 0 && c->bias_kind == NO_BIAS ? seen_max : w->raw[n]);
        PUT(concentration, w->squares[n] * share * share);
        PUT(distance, w->away[n] * share);
        if (ask->visible) ask->visible[at] = w->count[n];
        for (int64_t m = 0; m < ask->matches; m++)
            ((T *)ask->match[m].mass)[at] = w->matched[m][n] * share;
        for (int64_t k = 0; k < ask->top_k; k++) {
            T s = w->top_score[n * ask->top_k + k];
            VEC p = FN(weights_of)(FN(splat)(s), m, to_m);
            T weight = share != share ? share : s == -INFINITY || share == 0 ? 0 : p[0];
            ((T *)ask->top_weights)[at * ask->top_k + k] = weight;
            ((T *)ask->top_scores)[at * ask->top_k + k] = s;
            ask->top_keys[at * ask->top_k + k] = w->top_key[n * ask->top_k + k];
        }
        if (!ask->output) continue;
        T *out = (T *)ask->output + block->batch * ask->output_strides[0] +
                 block->head * ask->output_strides[1] + i * ask->output_strides[2];
        T factor = w->shrink[n] * (ask->given_max ? share : inverse);
        for (int64_t d = 0; d < c->value_dim; d++) out[d] = w->sum[n * wide + d] * factor;
    }
}

/* one row's cells, brought to its final lse, into its segment: divided by the area of the cell
 * inside the matrix, or compared */
static void FN(close_pool_row)(FN(RowState) *w, const Pool *pool, const T *cells, int64_t n,
                               T *to) {
    const FN(Block) *block = &w->block;
    const KernelCall *c = block->call;
    T m = w->final_max[n], log_l = w->final_log[n];
    int64_t top = block->row[n] / pool->cell * pool->cell, ragged = c->keys % pool->cell;
    T rows = (T)(c->queries - top < pool->cell ? c->queries - top : pool->cell);
    /* the cells that end in one tile refer to that tile's maximum */
    for (int64_t first = block->lowest / TILE_KEYS * TILE_KEYS; first < block->highest;
         first += TILE_KEYS) {
        T then = w->tile_max[first / TILE_KEYS * BLOCK_ROWS + n];
        int last_tile = first + TILE_KEYS >= block->highest;
        int64_t x = first / pool->cell;
        int64_t end = last_tile ? (block->highest - 1) / pool->cell + 1
                                : (first + TILE_KEYS) / pool->cell;
        if (pool->largest) {
            for (; x < end; x++) {
                VEC p = FN(weights_of)(FN(splat)(cells[x]), m, log_l);
                T weight = cells[x] == -INFINITY ? 0 : p[0];
                if (!(weight <= to[x])) to[x] = weight;
            }
            continue;
        }
        if (then == -INFINITY) continue;
        T factor = EXP((then - m) - log_l) / (rows * (T)pool->cell);
        int64_t even = ragged && end == pool->columns ? end - 1 : end;
        for (; x < even; x++) to[x] += cells[x] * factor;
        if (x < end) to[x] += cells[x] * factor * ((T)pool->cell / (T)ragged);
    }
}

static void FN(close_pool)(FN(RowState) *w, const Pool *pool, const T *cells) {
    const FN(Block) *block = &w->block;
    const KernelCall *c = block->call;
    T *all = (T *)pool->cells +
             (block->batch * c->heads + block->head) * pool->segments * pool->columns;
    int64_t open = -1; /* the segment that rows are added to; each begins at 0 */
    for (int64_t n = 0; n < block->count; n++, cells += pool->columns) {
        int64_t segment = pool->segment_of[block->row[n]];
        T *to = all + segment * pool->columns;
        if (segment != open) memset(to, 0, sizeof(T) * pool->columns);
        open = segment;
        if (w->total[n] != 0 && w->final_max[n] != -INFINITY)
            FN(close_pool_row)(w, pool, cells, n, to);
    }
}

static void FN(begin_rows)(FN(RowState) *w, const RowSweep *ask) {
    for (int64_t n = 0; n < BLOCK_ROWS; n++) {
        w->largest[n] = w->raw[n] = -INFINITY;
        w->total[n] = w->centred[n] = w->squares[n] = w->away[n] = 0;
        w->count[n] = 0;
        for (int64_t m = 0; m < MOST_MATCHES; m++) w->matched[m][n] = 0;
        for (int64_t k = 0; k < ask->top_k; k++) {
            w->top_score[n * ask->top_k + k] = -INFINITY;
            w->top_key[n * ask->top_k + k] = -1;
        }
    }
    memset(w->sum, 0, sizeof(T) * BLOCK_ROWS * FN(padded)(w->block.call->value_dim));
}

/* the keys of the tile at `first` that somebody of the block may see, at most */
INLINE int64_t FN(keys_here)(const FN(Block) *block, int64_t first) {
    int64_t left = block->highest - first;
    return left < TILE_KEYS ? left : TILE_KEYS;
}

/* what the block's rows, which are final, give to each key */
static void FN(sum_block)(FN(RowState) *w, const RowSweep *ask) {
    const FN(Block) *block = &w->block;
    for (int64_t t = block->lowest / TILE_KEYS; t * TILE_KEYS < block->highest; t++)
        FN(sum_tile)(block, w->kept + t * BLOCK_ROWS * TILE_KEYS,
                     FN(padded)(FN(keys_here)(block, t * TILE_KEYS)), w->final_max, w->final_log,
                     NULL, &ask->sums, 0, w->sums + t);
}

/* … once all earlier blocks of its head have given theirs. Blocks are handed out in ascending
 * order: whoever is waited for is at work. */
static void FN(give_block)(FN(RowState) *w, const RowSweep *ask, atomic_llong *turn, int64_t b) {
    while (atomic_load_explicit(turn, memory_order_acquire) != b) sched_yield();
    int64_t from = w ? w->block.lowest / TILE_KEYS : 0, end = w ? w->block.highest : 0;
    for (int64_t t = from, first; (first = t * TILE_KEYS) < end; t++)
        FN(add_sums)(&w->block, w->sums + t, first, FN(keys_here)(&w->block, first), &ask->sums);
    atomic_store_explicit(turn, b + 1, memory_order_release);
}

/* all keys for one block of queries of one head */
static void FN(sweep_block)(FN(RowState) *w, const RowSweep *ask) {
    FN(Block) *block = &w->block;
    const KernelCall *c = block->call;
    int64_t wide = FN(padded)(c->value_dim);
    int measured = ask->entropy || ask->concentration || ask->distance;
    int wants_raw = ask->max_score && (c->softcap != 0 || c->bias_kind != NO_BIAS);
    FN(open_block)(block);
    FN(begin_rows)(w, ask);
    for (int64_t first = block->lowest / TILE_KEYS * TILE_KEYS; first < block->highest;
         first += TILE_KEYS) {
        int64_t real = FN(keys_here)(block, first), width = FN(padded)(real);
        w->scores = w->kept ? w->kept + first * BLOCK_ROWS : w->s;
        FN(score_tile)(block, first, width, w->scores, wants_raw ? w->raw : NULL, NULL);
        FN(fold_tile)(w, ask, first, real, measured);
        if (!ask->output) continue;
        for (int64_t x = 0; x < wide; x += PANEL)
            for (int64_t n = 0; n < block->count; n += GROUP)
                FN(multiply)(real, w->s + n * TILE_KEYS, TILE_KEYS, 1, w->v + first * w->v_row + x,
                             w->v_row, w->sum + n * wide + x, wide, w->shrink + n);
    }
    FN(close_rows)(w, ask);
    for (int64_t p = 0; p < ask->pools; p++) FN(close_pool)(w, ask->pool + p, w->pooled[p]);
    if (w->kept) FN(sum_block)(w, ask);
}

/* a worker's memory for this sweep; packed keys and values stay while the key head is the same */
static FN(RowState) *FN(open_rows)(const KernelCall *c, const RowSweep *ask) {
    int64_t wide = FN(padded)(c->value_dim), keys = FN(padded)(c->keys), pooled = 0;
    int64_t tiles = ask->turn ? (c->keys + TILE_KEYS - 1) / TILE_KEYS : 0;
    for (int64_t p = 0; p < ask->pools; p++) pooled += BLOCK_ROWS * ask->pool[p].columns;
    int64_t sizes[] = {
        BLOCK_ROWS * FN(padded)(c->dim),
        keys * c->dim,
        BLOCK_ROWS * TILE_KEYS,
        BLOCK_ROWS * wide,
        ask->output ? c->keys * wide : 0,
        BLOCK_ROWS * ask->top_k,
        ask->pools ? (c->keys / TILE_KEYS + 1) * BLOCK_ROWS : 0,
        pooled,
        tiles * BLOCK_ROWS * TILE_KEYS,
    };
    size_t numbers = 0;
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) numbers += sizes[n];
    FN(RowState) *w = take(sizeof *w);
    T *next = take(numbers * sizeof(T));
    int64_t *top_key = take(sizeof(int64_t) * BLOCK_ROWS * ask->top_k);
    FN(TileSums) *sums = take(sizeof *sums * tiles);
    if (!w || !next || !top_key || !sums) {
        free(w), free(next), free(top_key), free(sums);
        return NULL;
    }
    w->memory = next, w->top_key = top_key, w->sums = sums, w->packed = -1;
    w->block.call = c;
    w->block.q = next, next += sizes[0];
    w->panels = next, next += sizes[1];
    w->s = next, next += sizes[2];
    w->sum = next, next += sizes[3];
    w->values = next, next += sizes[4];
    w->top_score = next, next += sizes[5];
    w->tile_max = next, next += sizes[6];
    for (int64_t p = 0; p < ask->pools; p++)
        w->pooled[p] = next, next += BLOCK_ROWS * ask->pool[p].columns;
    w->kept = tiles ? next : NULL;
    memset(w->s, 0, sizeof(T) * BLOCK_ROWS * TILE_KEYS);
    return w;
}

static void FN(pack_head)(FN(RowState) *w, const RowSweep *ask, int64_t unit) {
    const KernelCall *c = w->block.call;
    int64_t batch = unit / c->key_heads, key_head = unit % c->key_heads;
    int64_t wide = FN(padded)(c->value_dim);
    const T *v = (const T *)c->v + batch * c->v_strides[0] + key_head * c->v_strides[1];
    FN(pack_keys)(c, batch, key_head, 0, c->keys, w->panels);
    w->block.k = w->panels, w->packed = unit, w->v = v, w->v_row = c->v_strides[2];
    if (!ask->output || (w->v_row == c->value_dim && wide == c->value_dim)) return;
    FN(pack_rows)(v, w->v_row, c->keys, c->value_dim, w->values, wide);
    w->v = w->values, w->v_row = wide;
}

/* work item: some blocks of the query heads that share one key head */
static int FN(row_item)(const void *call, const void *asked, int64_t item, int64_t parts,
                        void **state) {
    const KernelCall *c = call;
    const RowSweep *ask = asked;
    FN(RowState) *w = *state ? *state : (*state = FN(open_rows)(c, ask));
    if (!w && !ask->turn) return 1;
    int64_t part = item % parts, unit = item / parts, group = c->heads / c->key_heads;
    int64_t batch = unit / c->key_heads;
    if (w && w->packed != unit) FN(pack_head)(w, ask, unit);
    int64_t blocks = (c->last_query + BLOCK_ROWS - 1) / BLOCK_ROWS;
    for (int64_t head = unit % c->key_heads * group, g = 0; g < group; g++, head++)
        for (int64_t b = c->first_query / BLOCK_ROWS + part; b < blocks; b += parts) {
            if (w) {
                w->block.batch = batch, w->block.head = head;
                FN(take_rows)(&w->block, b * BLOCK_ROWS);
                FN(sweep_block)(w, ask);
            } /* without memory, turns are still passed on: others wait for them */
            if (ask->turn) FN(give_block)(w, ask, ask->turn + batch * c->heads + head, b);
        }
    return !w;
}

static void FN(close_row_state)(void *state) {
    FN(RowState) *w = state;
    if (w) free(w->memory), free(w->top_key), free(w->sums), free(w);
}
