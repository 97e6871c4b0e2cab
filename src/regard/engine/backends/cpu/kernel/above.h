/* a bit for each lane of s that exceeds `bound` */
INLINE uint32_t FN(above)(const T *s, T bound) {
    uint32_t bits = 0;
    for (int n = 0; n < LANES; n++) bits |= (uint32_t)(s[n] > bound) << n;
    return bits;
}
