/* Attention sweeps for the CPU, once per instruction set, chosen when they are called.
 *
 *     regard_rows       output, lse and row statistics       (rows.h), sums over queries (sums.h)
 *     regard_columns    received mass, diagonals, Aᵀ @ y      (columns.h)
 *     regard_cells      rows, slices, single weights          (cells.h)
 *     regard_backward   gradients of output, lse and entropy  (backward.h)
 *
 * Each returns 0, or 1 where memory ran out. Threads share work items; which thread takes which
 * never changes a bit of the result. */

#include "regard_cpu.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if defined(__clang__)
#define UNROLL_GROUP _Pragma("clang loop unroll(full)")
#else
#define UNROLL_GROUP _Pragma("GCC unroll 8")
#endif

/* (exp(r) − 1 − r)/r² on |r| ≤ log(2)/2, highest power first; made by tools/fit_exp.py */
#define EXP_F32_TERMS 6
#define EXP_F64_TERMS 12
static const float EXP_F32[] = {0.0001989108046f, 0.001393373072f, 0.008333310845f,
    0.0416664642f, 0.1666666668f, 0.5000000014f};
static const double EXP_F64[] = {1.608667766678736172e-10, 2.09182123191339782e-9,
    2.505207095980366199e-8, 2.755726307730941145e-7, 2.755731924734450951e-6,
    0.00002480158733663094697, 0.0001984126984126325187, 0.001388888888887900308,
    0.008333333333333334013, 0.04166666666666667687, 0.1666666666666666667, 0.5};

static void *take(size_t bytes) {
    return aligned_alloc(64, (bytes + 127) / 64 * 64); /* never 0 bytes */
}

static float brain_number(uint16_t number) {
    uint32_t bits = (uint32_t)number << 16;
    float made;
    memcpy(&made, &bits, sizeof made);
    return made;
}

static float half_number(uint16_t number) {
    uint32_t sign = (uint32_t)(number & 0x8000) << 16, exponent = number >> 10 & 31;
    uint32_t fraction = number & 1023, bits = sign | fraction << 13;
    float made;
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
    bits |= exponent == 31 ? 0x7f800000u : (exponent + 112) << 23;
    memcpy(&made, &bits, sizeof made);
    return made;
}

#define ISA generic
#define VECTOR_BYTES 16
#include "elements.h"
#undef ISA
#undef VECTOR_BYTES

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#define __AVX2__ 1
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define ISA avx2
#define VECTOR_BYTES 32
#include "elements.h"
#undef ISA
#undef VECTOR_BYTES
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma"))), \
                             apply_to = function)
#define __AVX512F__ 1
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,fma,prefer-vector-width=512")
#endif
#define ISA avx512
#define VECTOR_BYTES 64
#include "elements.h"
#undef ISA
#undef VECTOR_BYTES
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

typedef int (*Item)(const void *, const void *, int64_t, int64_t, void **);
typedef struct {
    Item rows, columns, cells, backward;
    void (*close_rows)(void *), (*close_backward)(void *);
} Sweeps;

#define SWEEPS(type, isa)                                                                   \
    {row_item_##type##_##isa, column_item_##type##_##isa, cell_item_##type##_##isa,          \
     backward_item_##type##_##isa, close_row_state_##type##_##isa, close_backward_##type##_##isa}

/* by instruction set, then by element type */
static const Sweeps ALL[][2] = {
    {SWEEPS(f32, generic), SWEEPS(f64, generic)},
#if defined(__x86_64__)
    {SWEEPS(f32, avx2), SWEEPS(f64, avx2)},
    {SWEEPS(f32, avx512), SWEEPS(f64, avx512)},
#endif
};

#if defined(__x86_64__)
/* What processor and system have, as an index into ALL. By cpuid itself: __builtin_cpu_supports
 * needs a part of the compiler's run-time library that not every compiler brings. */
static int64_t best_x86(void) {
    const unsigned fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, first = fma | osxsave | avx;
    const unsigned avx2 = 1u << 5;
    const unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* f, dq, bw, vl */
    unsigned a, b, c, d, saved, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & first) != first) return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    /* the registers that the system keeps for a thread that waits: xmm, ymm; masks, zmm */
    if ((b & avx2) != avx2 || (saved & 0x06) != 0x06) return 0;
    return (b & avx512) == avx512 && (saved & 0xe6) == 0xe6 ? 2 : 1;
}
#endif

/* the best instruction set of this machine, as an index for the functions below */
int64_t regard_best(void) {
#if defined(__x86_64__)
    return best_x86();
#else
    return 0;
#endif
}

const char *regard_name(int64_t isa) {
#if defined(__aarch64__)
    return isa == 0 ? "neon" : "?";
#else
    return isa == 0 ? "generic" : isa == 1 ? "avx2" : isa == 2 ? "avx512" : "?";
#endif
}

/* ── work shared among threads ─────────────────────────────────────────────────────────────── */

enum { MOST_THREADS = 256 };

typedef struct {
    Item item;
    void (*close)(void *);
    const void *call, *ask;
    int64_t items, parts;
    atomic_llong next;
    atomic_int failed;
} Work;

static void work(void *shared) {
    Work *w = shared;
    void *state = NULL;
    for (int64_t n; (n = atomic_fetch_add(&w->next, 1)) < w->items;)
        if (w->item(w->call, w->ask, n, w->parts, &state)) atomic_store(&w->failed, 1);
    if (w->close) w->close(state);
}

static void *work_apart(void *shared) {
    work(shared);
    return NULL;
}

static void share_apart(Work *w, int64_t threads) {
    pthread_t helper[MOST_THREADS];
    int64_t started = 0;
    while (started < threads - 1 && !pthread_create(&helper[started], NULL, work_apart, w))
        started++;
    work(w); /* a thread that could not be started leaves more for the others */
    while (started) pthread_join(helper[--started], NULL);
}

/* each unit whole, or in as many parts as keep the threads busy: in as many as told, if it is */
static int share(Item item, void (*close)(void *), const KernelCall *call, const void *ask,
                 int64_t units, int64_t most_parts, int64_t told) {
    int64_t threads = call->threads < MOST_THREADS ? call->threads : MOST_THREADS;
    int64_t parts = 1;
    if (units > 0 && units < 4 * threads && units % threads)
        parts = (4 * threads + units - 1) / units;
    parts = parts < most_parts ? parts : most_parts < 1 ? 1 : most_parts;
    if (told && parts > 1) parts = told;
    Work w = {item, close, call, ask, units * parts, parts, 0, 0};
    if (threads > w.items) threads = w.items;
    if (threads <= 1) work(&w);
    else if (call->parallel) call->parallel(work, &w, (unsigned)threads, 0);
    else share_apart(&w, threads);
    return atomic_load(&w.failed);
}

static int64_t blocks_of(const KernelCall *c) {
    return (c->last_query - c->first_query + BLOCK_ROWS - 1) / BLOCK_ROWS;
}

int regard_rows(const KernelCall *c, const RowSweep *ask, int64_t isa, int64_t wide) {
    const Sweeps *s = &ALL[isa][wide];
    int64_t blocks = blocks_of(c); /* one by one, where sums wait for those of earlier ones */
    return share(s->rows, s->close_rows, c, ask, c->batch * c->key_heads, blocks,
                 ask->turn ? blocks : 0);
}

int regard_columns(const KernelCall *c, const ColumnSweep *ask, int64_t isa, int64_t wide) {
    int64_t tiles = (c->keys + TILE_KEYS - 1) / TILE_KEYS;
    return share(ALL[isa][wide].columns, NULL, c, ask, c->batch * c->heads, tiles,
                 ask->sums.offsets ? OFFSET_PARTS : 0);
}

int regard_cells(const KernelCall *c, const Rectangle *ask, int64_t isa, int64_t wide) {
    int64_t blocks = (ask->rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    return share(ALL[isa][wide].cells, NULL, c, ask, ask->units, blocks, 0);
}

int regard_backward(const KernelCall *c, const Backward *ask, int64_t isa, int64_t wide) {
    const Sweeps *s = &ALL[isa][wide];
    return share(s->backward, s->close_backward, c, ask, c->batch * c->key_heads, 1, 0);
}
