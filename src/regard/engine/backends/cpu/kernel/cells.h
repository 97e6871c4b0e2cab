/* A rectangle of weights or scores: rows and columns by index, so that nothing more is computed
 * than the tiles they stand in. */

static int FN(cell_item)(const void *call, const void *asked, int64_t item, int64_t parts,
                           void **state) {
    const KernelCall *c = call;
    const Rectangle *ask = asked;
    (void)state;
    int64_t part = item % parts, u = item / parts;
    int64_t batch = ask->unit[u] / c->heads, head = ask->unit[u] % c->heads;
    int64_t wide = FN(padded)(c->dim);
    FN(Block) *block = malloc(sizeof *block);
    T *memory = take(sizeof(T) * (BLOCK_ROWS * (wide + TILE_KEYS) + TILE_KEYS * c->dim));
    if (!block || !memory) {
        free(block), free(memory);
        return 1;
    }
    T *q = memory, *s = q + BLOCK_ROWS * wide, *panels = s + BLOCK_ROWS * TILE_KEYS;
    int64_t key_head = head / (c->heads / c->key_heads);
    memset(s, 0, sizeof(T) * BLOCK_ROWS * TILE_KEYS);
    *block = (FN(Block)){.call = c, .batch = batch, .head = head, .q = q};
    for (int64_t top = part * BLOCK_ROWS; top < ask->rows; top += parts * BLOCK_ROWS) {
        block->count = ask->rows - top < BLOCK_ROWS ? ask->rows - top : BLOCK_ROWS;
        memcpy(block->row, ask->row + top, sizeof(int64_t) * block->count);
        FN(open_block)(block);
        for (int64_t x = 0, end; x < ask->cols; x = end) {
            int64_t first = ask->col[x] / TILE_KEYS * TILE_KEYS;
            int64_t real = c->keys - first < TILE_KEYS ? c->keys - first : TILE_KEYS;
            for (end = x; end < ask->cols && ask->col[end] < first + real; end++) {}
            FN(pack_keys)(c, batch, key_head, first, real, panels);
            block->k = panels - first * c->dim;
            FN(score_tile)(block, first, FN(padded)(real), s, NULL, NULL);
            for (int64_t n = 0; n < block->count; n++) {
                T *row = s + n * TILE_KEYS;
                T *to = (T *)ask->cells + (u * ask->rows + top + n) * ask->cols;
                int64_t r = (batch * c->heads + head) * c->queries + block->row[n];
                T m = ((const T *)ask->row_max)[r], log_l = ((const T *)ask->row_log)[r];
                if (!ask->scores && m == -INFINITY) memset(row, 0, sizeof(T) * TILE_KEYS);
                else if (!ask->scores)
                    for (int64_t j = 0; j < FN(padded)(real); j += LANES)
                        FN(store)(row + j, FN(weights_of)(FN(load)(row + j), m, log_l));
                for (int64_t j = x; j < end; j++) to[ask->place[j]] = row[ask->col[j] - first];
            }
        }
    }
    free(block), free(memory);
    return 0;
}
