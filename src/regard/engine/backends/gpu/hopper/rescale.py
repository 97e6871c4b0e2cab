# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Multiplying a row's context when its reference rises, and only then.

A row's weights are powers against a reference that trails its maximum (see fold.py), so almost
every tile multiplies the context by 1: 64 products a thread that change no bit. A warp whose 16
rows all stay where they are leaves them out. Such a branch cannot be said in Gluon, so it is said
in PTX.

`voted` asks before the product that is under way is waited for, and its vote needs the sums: so
the compiler, which would gladly wait first and take the powers afterwards, cannot.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

# of two rows: $2 $3 what they shrink by, $4 $5 sums of powers, $6 $7 other sums. The sums always
# pass, unless they are NaN or infinite; then multiplying does no harm either.
_VOTE = gl.constexpr("""{
.reg .pred still, all;
setp.eq.f32 still, $2, 0f3F800000;
setp.eq.and.f32 still, $3, 0f3F800000, still;
setp.ge.and.f32 still, $4, 0f00000000, still;
setp.ge.and.f32 still, $5, 0f00000000, still;
setp.lt.and.f32 still, $6, 0f7F800000, still;
setp.lt.and.f32 still, $7, 0f7F800000, still;
vote.sync.all.pred all, still, 0xffffffff;
selp.f32 $0, 0fBF800000, $2, all;
selp.f32 $1, 0fBF800000, $3, all;
}""")


@gluon.jit
def voted(shrink, total, centred):
    """(64, 4), as sums lie: what rows shrink by; −1 in a warp none of whose rows does."""
    return gl.inline_asm_elementwise(
        _VOTE, "=f,=f,f,f,f,f,f,f", [shrink, total, centred], gl.float32, is_pure=False, pack=2
    )


@gluon.constexpr_function
def _multiply(many):
    """In place, unless the first factor is negative; it is so for all of a warp or for none."""
    lines = [f"mul.f32 ${n}, ${n}, ${2 * many + n};" for n in range(many)]
    ask = f"setp.lt.f32 still, ${2 * many}, 0f00000000;"
    return "\n".join(["{", ".reg .pred still;", ask, "@still bra.uni DONE;", *lines, "DONE:", "}"])


@gluon.constexpr_function
def _in_place(many):
    """`many` results in the registers of the first operands, then as many factors."""
    return ",".join(["=f"] * many + [str(n) for n in range(many)] + ["f"] * many)


@gluon.jit
def rescaled(context, by, D: gl.constexpr, VALUES: gl.constexpr):
    """(64, D) times what `voted` says of its rows."""
    MANY: gl.constexpr = D // 2  # a thread's numbers, of two rows
    wide = gl.reshape(by, [64, 4, 1]).broadcast_to([64, 4, D // 4])
    wide = gl.permute(gl.reshape(wide, [64, 4, D // 8, 2]), (0, 2, 1, 3))
    wide = gl.convert_layout(gl.reshape(wide, [64, D]), VALUES)  # where it is already
    return gl.inline_asm_elementwise(
        _multiply(MANY), _in_place(MANY), [context, wide], gl.float32, is_pure=True, pack=MANY
    )
