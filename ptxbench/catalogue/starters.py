"""One or two of each kind of instruction: what a run measures where none are named."""

STARTERS = (
    "add.u32",
    "mad.lo.u32",
    "div.u32",
    "xor.b32",
    "popc.b32",
    "add.f32",
    "fma.rn.f32",
    "div.rn.f32",
    "ex2.approx.ftz.f32",
    "fma.rn.f64",
    "fma.rn.f16x2",
    "ld.global.u32",
)
