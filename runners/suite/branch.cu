KERNEL(collatz) {
    const u32 start = (word(in, 0) & 0xffff) + 3;
    u32 x = start, steps = 0;
    for (int r = 0; r < rounds; ++r) {
        if (x & 1) x = 3 * x + 1, ++steps;
        else x >>= 1;
        if (x <= 1) x = start + steps;
    }
    out[ME] = x ^ steps;
}
KERNEL(search) {
    TILE u32 sum = 0, wanted = word(in, 0);
    for (int r = 0; r < rounds; ++r) {
        u32 low = 0, high = 1023;
        while (low < high) {
            const u32 middle = (low + high) >> 1;
            if (tile[middle] < wanted) low = middle + 1;
            else high = middle;
        }
        sum += low, wanted = wanted * 1664525u + r;
    }
    out[ME] = sum;
}
KERNEL(gcd) {
    TILE u32 sum = 0;
    for (int r = 0; r < rounds; ++r) {
        u32 a = AT(r) | 1, b = AT(r + 3) | 1;
        while (a != b) {
            if (a > b) a -= b, a >>= __ffs(a) - 1;
            else b -= a, b >>= __ffs(b) - 1;
        }
        sum += a;
    }
    out[ME] = sum;
}
KERNEL(sort8) {
    TILE u32 x[8], sum = 0;
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] = AT(8 * r + i);
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int j = i & 1; j < 7; j += 2) {
                const u32 low = min(x[j], x[j + 1]), high = max(x[j], x[j + 1]);
                x[j] = low, x[j + 1] = high;
            }
        sum = sum * 31 + (x[0] ^ x[3] ^ x[7]);
    }
    out[ME] = sum;
}
