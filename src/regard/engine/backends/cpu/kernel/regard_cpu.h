/* What Python hands to the kernels. `structures.py` reads this file.
 *
 * Element type: float or double, the same for every `void *` below. Strides count elements; the
 * last axis of q, k and v is contiguous. A null pointer means "not given" or "not asked for".
 */
#ifndef REGARD_CPU_H
#define REGARD_CPU_H

#include <stdatomic.h>
#include <stdint.h>

enum { BLOCK_ROWS = 64, TILE_KEYS = 256, MOST_POOLS = 4, MOST_MATCHES = 4, OFFSET_PARTS = 4 };
/* the scores of a block of rows that a thread may keep */
enum { MOST_KEPT_BYTES = 2097152 };

enum key_kind { AS_COMPUTED, BRAIN, HALF }; /* numbers of a cache: element type, bf16, fp16 */

enum bias_kind { NO_BIAS, BIAS_TABLE, BIAS_SLOPES, BIAS_BY_DISTANCE };

typedef struct {
    int64_t batch, heads, key_heads, queries, keys, dim, value_dim;
    const void *q, *k, *v;
    int64_t q_strides[3], k_strides[3], v_strides[3]; /* batch, head, token */
    /* Keys in a cache: k is the cache, k_rows (keys,) says where each begins and k_step how far its
     * numbers are apart; strides[1] is the one of k_strides that counts. */
    const int64_t *k_rows;
    int64_t k_step, k_kind;
    double scale, softcap;                            /* softcap 0: none */
    int64_t bias_kind;
    const void *bias;
    int64_t bias_strides[4]; /* batch, head, query, key: of a table */
    int64_t bias_shift;      /* query i stands at key position i + shift */
    int64_t bias_reach;      /* by distance: numbers for −reach … reach, per head */
    const int64_t *span_low, *span_high; /* row i sees keys low ≤ j < high; both or neither */
    int64_t span_stride;                 /* from one batch entry's rows to the next's */
    const uint8_t *seen;                 /* booleans, rows counted from first_query */
    int64_t seen_strides[4];             /* batch, head, query, key */
    const void *sink;                    /* (heads,) */
    int64_t first_query, last_query;     /* the rows to work on */
    int64_t distance_shift; /* query i stands at key i + shift when distances are measured … */
    const int64_t *places;  /* (queries,): … or at the key named here */
    int64_t threads;
    /* torch's own OpenMP, as GOMP_parallel: its idle threads spin, so threads of ours beside them
     * would wait for a core. Null: POSIX threads. */
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
} KernelCall;

typedef struct {
    int64_t cell, largest; /* tokens a side; 0: mean, 1: largest weight */
    int64_t segments, columns;
    void *cells; /* (batch, heads, segments, columns): one row per run of rows of one block+cell */
    const int64_t *segment_of; /* (queries,) */
} Pool;

/* Mass on earlier keys with the query's mark. Marks are whole numbers as wide as an element. */
typedef struct {
    const void *query_marks, *key_marks; /* (queries,) and (keys,) of a batch entry */
    int64_t query_stride, key_stride;    /* from one batch entry to the next */
    void *mass;
} Match;

/* Sums over queries, added to, and the largest weights. */
typedef struct {
    double *mass;    /* (batch, heads, keys) */
    double *largest; /* (batch, heads, keys) */
    int64_t *seen;   /* (batch, heads, keys) */
    double *offsets; /* (batch, heads, OFFSET_PARTS, queries + keys − 1) */
} QuerySums;

/* Everything a row sweep can measure; arrays are contiguous (batch, heads, queries). */
typedef struct {
    void *output;
    int64_t output_strides[3];
    const void *given_max, *given_log; /* an lse to divide by instead of one's own */
    void *row_max, *row_log; /* lse = row_max + row_log, kept apart for accuracy */
    void *entropy, *max_score, *max_logit, *concentration, *distance;
    int64_t *visible;
    int64_t top_k;
    void *top_weights, *top_scores; /* (batch, heads, queries, k) */
    int64_t *top_keys;
    int64_t pools;
    Pool pool[MOST_POOLS];
    int64_t matches;
    Match match[MOST_MATCHES];
    QuerySums sums;     /* from scores that are kept, where they are asked for: with `turn` */
    atomic_llong *turn; /* (batch, heads): the block of queries that is added next, from 0 on */
} RowSweep;

/* What each key received, the sums of diagonals, and Aᵀ @ y. */
typedef struct {
    const void *row_max, *row_log; /* (batch, heads, queries) */
    const uint8_t *chosen;         /* (queries,): which rows count; null: all */
    const void *by;                /* (batch, heads, queries): what weights are multiplied by */
    QuerySums sums;
    const void *y;                 /* (batch, heads, queries, width), contiguous */
    int64_t width;
    void *product; /* (batch, heads, keys, width), added to */
} ColumnSweep;

/* A rectangle of some heads. */
typedef struct {
    const void *row_max, *row_log;
    int64_t units, rows, cols;
    const int64_t *unit, *row; /* unit = batch · heads + head */
    const int64_t *col, *place; /* columns in ascending order, and where each one goes */
    int64_t scores;             /* 1: final scores, 0: weights */
    void *cells;                /* (units, rows, cols) */
} Rectangle;

/* dS = p (dP − shift − slope·(s − lse)), with dP = grad_output · v; and the mass each key received,
 * whose weights are here anyway. */
typedef struct {
    const void *row_max, *row_log;
    const void *grad_output;   /* (batch, heads, queries, value_dim), contiguous */
    const void *shift, *slope; /* (batch, heads, queries); slope null: 0 */
    void *grad_q, *grad_k, *grad_v; /* contiguous; grad_k and grad_v per key head */
    double *mass;                   /* (batch, heads, keys), added to */
} Backward;

#endif
