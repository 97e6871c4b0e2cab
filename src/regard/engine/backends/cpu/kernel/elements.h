/* Both element types for one instruction set: ISA names it, VECTOR_BYTES is its width. */

#define T float
#define INT int32_t
#define LANES (VECTOR_BYTES / 4)
#define FN(name) JOIN(name##_f32_, ISA)
#define EXP expf
#define LOG logf
#define TINY 1e-6f
#define ROUNDER 12582912.0f /* 1.5·2²³: adding it rounds to a whole number */
#define LOG2_HIGH 0.693359375f
#define LOG2_LOW -2.12194440054690583e-4f
#define EXPONENT_BIAS 127
#define MANTISSA_BITS 23
#define SMALLEST_EXPONENT -87.0f
#define LARGEST_EXPONENT 88.0f
#define EXP_COEFFICIENTS EXP_F32
#define EXP_TERMS EXP_F32_TERMS
#include "lanes.h"
#if defined(__AVX512F__) && VECTOR_BYTES == 64
INLINE uint32_t FN(above)(const T *s, T bound) {
    return _mm512_cmp_ps_mask(_mm512_loadu_ps(s), _mm512_set1_ps(bound), _CMP_GT_OQ);
}
#elif defined(__AVX2__) && VECTOR_BYTES == 32
INLINE uint32_t FN(above)(const T *s, T bound) {
    return _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(s), _mm256_set1_ps(bound), _CMP_GT_OQ));
}
#else
#include "above.h"
#endif
#include "sweeps.h"

#define T double
#define INT int64_t
#define LANES (VECTOR_BYTES / 8)
#define FN(name) JOIN(name##_f64_, ISA)
#define EXP exp
#define LOG log
#define TINY 1e-15
#define ROUNDER 6755399441055744.0 /* 1.5·2⁵² */
#define LOG2_HIGH 0.693147180369123816490
#define LOG2_LOW 1.90821492927058770002e-10
#define EXPONENT_BIAS 1023
#define MANTISSA_BITS 52
#define SMALLEST_EXPONENT -707.0
#define LARGEST_EXPONENT 709.0
#define EXP_COEFFICIENTS EXP_F64
#define EXP_TERMS EXP_F64_TERMS
#include "lanes.h"
#include "above.h"
#include "sweeps.h"
