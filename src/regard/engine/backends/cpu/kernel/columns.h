/* The column sweep: what each key received, with the rows' final lse known. A work item owns a
 * range of keys and walks the queries in order, so that nothing is added by two threads. Diagonals
 * cross all keys: each of a fixed number of parts has sums of its own, so that the number of
 * threads changes no bit of them. */

static int FN(column_item)(const void *call, const void *asked, int64_t item, int64_t parts,
                           void **state) {
    const KernelCall *c = call;
    const ColumnSweep *ask = asked;
    (void)state;
    int64_t part = item % parts, unit = item / parts;
    int64_t batch = unit / c->heads, head = unit % c->heads;
    int64_t wide = FN(padded)(c->dim), y_wide = FN(padded)(ask->width);
    FN(Block) *block = malloc(sizeof *block);
    T *memory = take(sizeof(T) * (BLOCK_ROWS * (wide + y_wide) + TILE_KEYS * (c->dim + y_wide) +
                                  BLOCK_ROWS * TILE_KEYS));
    if (!block || !memory) {
        free(block), free(memory);
        return 1;
    }
    T *q = memory, *y = q + BLOCK_ROWS * wide, *panels = y + BLOCK_ROWS * y_wide;
    T *sums = panels + TILE_KEYS * c->dim, *s = sums + TILE_KEYS * y_wide;
    T ones[GROUP], row_max[BLOCK_ROWS], row_log[BLOCK_ROWS], row_by[BLOCK_ROWS];
    FN(TileSums) tile;
    for (int r = 0; r < GROUP; r++) ones[r] = 1;
    int64_t key_head = head / (c->heads / c->key_heads);
    memset(s, 0, sizeof(T) * BLOCK_ROWS * TILE_KEYS);
    for (int64_t first = part * TILE_KEYS; first < c->keys; first += parts * TILE_KEYS) {
        int64_t real = c->keys - first < TILE_KEYS ? c->keys - first : TILE_KEYS;
        int64_t at = (batch * c->heads + head) * c->keys + first;
        FN(pack_keys)(c, batch, key_head, first, real, panels);
        memset(sums, 0, sizeof(T) * TILE_KEYS * y_wide);
        *block = (FN(Block)){.call = c, .batch = batch, .head = head, .q = q};
        block->k = panels - first * c->dim; /* score_tile counts keys from the first */
        for (int64_t start = c->first_query; start < c->last_query; start += BLOCK_ROWS) {
            block->count = 0;
            for (int64_t i = start; i < start + BLOCK_ROWS && i < c->last_query; i++)
                if (!ask->chosen || ask->chosen[i]) block->row[block->count++] = i;
            if (!block->count) continue;
            FN(see_block)(block);
            if (first >= block->highest || first + real <= block->lowest) continue;
            FN(read_block)(block);
            int64_t here = block->highest - first < real ? block->highest - first : real;
            int64_t width = FN(padded)(here);
            for (int64_t n = 0; n < block->count; n++) {
                int64_t r = (batch * c->heads + head) * c->queries + block->row[n];
                row_max[n] = ((const T *)ask->row_max)[r];
                row_log[n] = ((const T *)ask->row_log)[r];
                if (ask->by) row_by[n] = ((const T *)ask->by)[r];
            }
            FN(score_tile)(block, first, width, s, NULL, NULL);
            FN(sum_tile)(block, s, width, row_max, row_log, ask->by ? row_by : NULL, &ask->sums,
                         ask->product != NULL, &tile);
            FN(add_sums)(block, &tile, first, here, &ask->sums);
            if (!ask->product) continue;
            const T *from = (const T *)ask->y;
            memset(y, 0, sizeof(T) * BLOCK_ROWS * y_wide);
            for (int64_t n = 0; n < block->count; n++) {
                int64_t r = (batch * c->heads + head) * c->queries + block->row[n];
                memcpy(y + n * y_wide, from + r * ask->width, sizeof(T) * ask->width);
            }
            for (int64_t x = 0; x < y_wide; x += PANEL)
                for (int64_t j = 0; j < width; j += GROUP)
                    FN(multiply)(block->count, s + j, 1, TILE_KEYS, y + x, y_wide,
                                 sums + j * y_wide + x, y_wide, ones);
        }
        if (ask->product)
            for (int64_t j = 0; j < real; j++)
                for (int64_t x = 0; x < ask->width; x++)
                    ((T *)ask->product)[(at + j) * ask->width + x] += sums[j * y_wide + x];
    }
    free(block), free(memory);
    return 0;
}
