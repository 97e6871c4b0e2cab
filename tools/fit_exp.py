"""Fits the polynomial behind the kernels' exp and prints it as C.

(exp(r) − 1 − r)/r² on |r| ≤ log(2)/2, as near to minimax as interpolation at Chebyshev points
comes; evaluated in high precision, so that rounding of the coefficients is the only error.

    python tools/fit_exp.py
"""

from __future__ import annotations

from math import cos, pi

from mpmath import mp, mpf  # type: ignore[import-untyped]

mp.dps = 40
REACH = mp.log(2) / 2 * mpf("1.001")


def target(r: mpf) -> mpf:
    """(exp(r) − 1 − r)/r², by its series near 0."""
    return sum(r**n / mp.factorial(n + 2) for n in range(40))


def fit(terms: int) -> list[mpf]:
    """Coefficients, highest power first."""
    points = [REACH * mpf(cos(pi * (2 * n + 1) / (2 * terms))) for n in range(terms)]
    rows = mp.matrix([[p ** (terms - 1 - n) for n in range(terms)] for p in points])
    return list(mp.lu_solve(rows, mp.matrix([target(p) for p in points])))


def as_c(name: str, terms: int, suffix: str, digits: int) -> str:
    """One C array."""
    numbers = ", ".join(f"{mp.nstr(c, digits)}{suffix}" for c in fit(terms))
    kind = "float" if suffix else "double"
    return f"static const {kind} {name}[] = {{{numbers}}};"


if __name__ == "__main__":
    print(as_c("EXP_F32", 6, "f", 10))
    print(as_c("EXP_F64", 12, "", 19))
