// One operator on each element of an array, a thread for each.
#define OPERATOR(name, type, value)                                       \
    KERNEL(name) {                                                        \
        const type x = ((const type*)in)[ME], y = (type)(1 + 2 * rounds); \
        ((type*)out)[ME] = value;                                         \
    }
OPERATOR(f_div, float, x / y)
OPERATOR(f_rcp, float, 1.0f / x)
OPERATOR(f_sqrt, float, sqrtf(fabsf(x)))
OPERATOR(f_rsqrt, float, rsqrtf(fabsf(x)))
OPERATOR(f_exp, float, expf(x))
OPERATOR(f_sin, float, sinf(x))
OPERATOR(f_pow, float, powf(fabsf(x), y))
OPERATOR(f_mod, float, fmodf(x, y))
OPERATOR(f_tanh, float, tanhf(x))
OPERATOR(f_silu, float, x / (1.0f + expf(-x)))
OPERATOR(f_fdividef, float, __fdividef(x, y))
OPERATOR(d_div, double, x / y)
OPERATOR(d_sqrt, double, sqrt(fabs(x)))
OPERATOR(d_exp, double, exp(x))
OPERATOR(i_div64, long long, x / y)
OPERATOR(i_div32, int, x / y)
