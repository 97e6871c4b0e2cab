"""Right implementations, each with the mistakes made in it and the kinds that name them."""

from __future__ import annotations

NUMPY_2D = """
import numpy as np

def softmax(z):
    z = z - z.max(axis=1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=1, keepdims=True)

def scaled_dot_product_attention(Q, K, V):
    d_k = Q.shape[1]
    scores = Q @ K.T / np.sqrt(d_k)
    weights = softmax(scores)
    return weights @ V
"""

NUMPY_EINSUM = """
import numpy as np

def attention(queries, keys, values, mask=None, causal=False):
    d = queries.shape[-1]
    scores = np.einsum("...qd,...kd->...qk", queries, keys)
    scores = scores / d ** 0.5
    if causal:
        n, m = scores.shape[-2:]
        scores = np.where(np.tril(np.ones((n, m), dtype=bool)), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    scores = scores - scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores)
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return np.einsum("...qk,...kd->...qd", weights, values), weights
"""

NUMPY_SELF = """
import numpy as np

def self_attention(x, w_q, w_k, w_v):
    q = np.dot(x, w_q)
    k = np.dot(x, w_k)
    v = np.dot(x, w_v)
    scores = q.dot(k.T) / np.sqrt(k.shape[-1])
    e = np.exp(scores)
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights.dot(v)
"""

BASES: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "numpy_2d": (
        NUMPY_2D,
        [
            (" / np.sqrt(d_k)", "", "no scale"),
            ("np.sqrt(d_k)", "d_k", "wrong scale"),
            ("/ np.sqrt(d_k)", "* np.sqrt(d_k)", "wrong scale"),
            ("np.sqrt(d_k)", "np.sqrt(V.shape[1])", "√d_v"),
            ("np.sqrt(d_k)", "np.sqrt(Q.shape[0])", "√tokens"),
            ("np.sqrt(d_k)", "np.sqrt(K.shape[0])", "√tokens"),
            ("np.sqrt(d_k)", "8", "wrong scale"),
            ("axis=1", "axis=0", "softmax axis"),
            ("e.sum(axis=1, keepdims=True)", "e.sum()", "softmax axis"),
            ("e.sum(axis=1, keepdims=True)", "e.sum(axis=0, keepdims=True)", "softmax axis"),
            ("return e / e.sum(axis=1, keepdims=True)", "return e", "not normalised"),
            ("weights = softmax(scores)", "weights = scores", "no softmax"),
            ("weights = softmax(scores)", "weights = softmax(softmax(scores))", "softmax twice"),
            ("weights = softmax(scores)", "weights = np.log(softmax(scores))", "log_softmax"),
            ("weights = softmax(scores)", "weights = 1 / (1 + np.exp(-scores))", "not a softmax"),
            ("weights = softmax(scores)", "weights = softmax(-scores)", "wrong sign"),
            ("e = np.exp(z)", "e = 2 ** z", "wrong base"),
            ("weights @ V", "scores @ V", "no softmax"),
            ("weights @ V", "weights @ K", "wrong factor"),
            ("weights @ V", "weights", "returns the weights"),
            ("weights @ V", "weights @ V / np.sqrt(d_k)", "wrong scale|scale after softmax"),
            (
                "    d_k = Q",
                "    Q /= 2\n    Q *= 2\n    Q -= 1e-3\n    d_k = Q",
                "changed in place",
            ),
            (
                "scores = Q @",
                "Q /= np.sqrt(Q.shape[1])\n    scores = np.sqrt(d_k) * Q @",
                "changed in place",
            ),
            ("Q @ K.T", "Q @ K", "raises"),
            ("weights @ V", "V @ weights", "raises"),
            ("e.sum(axis=1, keepdims=True)", "e.sum(axis=1)", "keepdims"),
            ("z.max(axis=1, keepdims=True)", "z.max(axis=1)", "keepdims"),
            ("Q @ K.T", "-(Q @ K.T)", "wrong sign"),
        ],
    ),
    "numpy_einsum": (
        NUMPY_EINSUM,
        [
            (" / d ** 0.5", "", "no scale"),
            ("d ** 0.5", "d", "wrong scale"),
            ("/ d ** 0.5", "/ values.shape[-1] ** 0.5", "√d_v"),
            ("/ d ** 0.5", "/ keys.shape[-2] ** 0.5", "√tokens"),
            ("/ d ** 0.5", "/ d ** 0.25", "wrong scale"),
            ("scores = scores / d ** 0.5", "scores = scores / d ** 0.5 / d ** 0.5", "wrong scale"),
            (
                "np.tril(np.ones((n, m), dtype=bool))",
                "np.tril(np.ones((n, m), dtype=bool), -1)",
                "off by one",
            ),
            (
                "np.tril(np.ones((n, m), dtype=bool))",
                "np.tril(np.ones((n, m), dtype=bool), 1)",
                "off by one",
            ),
            (
                "np.tril(np.ones((n, m), dtype=bool))",
                "np.triu(np.ones((n, m), dtype=bool))",
                "mask transposed",
            ),
            (
                "np.tril(np.ones((n, m), dtype=bool))",
                "~np.tril(np.ones((n, m), dtype=bool))",
                "mask inverted",
            ),
            ("    if causal:", "    if False:", "mask missing"),
            ("    if mask is not None:", "    if False:", "mask missing"),
            ("np.where(mask, scores, -1e9)", "np.where(mask, scores, 0)", "masked with 0"),
            ("np.where(mask, scores, -1e9)", "scores * mask", "masked with 0"),
            ("np.where(mask, scores, -1e9)", "np.where(mask, scores, 1e-9)", "masked with 0"),
            (
                "np.where(mask, scores, -1e9)",
                "np.where(mask, scores, -1)",
                "masked with a small number",
            ),
            ("np.where(mask, scores, -1e9)", "np.where(mask, scores, 1e9)", "masked with +∞"),
            (
                "np.where(mask, scores, -1e9)",
                "np.where(np.swapaxes(mask, -1, -2), scores, -1e9)",
                "mask transposed",
            ),
            ("scores = np.where(mask, scores, -1e9)\n", "pass\n    w0 = mask\n", "mask missing"),
            (
                "axis=-1, keepdims=True)\n    return",
                "axis=-2, keepdims=True)\n    return",
                "softmax axis",
            ),
            (
                "axis=-1, keepdims=True)\n    return",
                "axis=0, keepdims=True)\n    return",
                "softmax axis",
            ),
            ("weights / weights.sum(axis=-1, keepdims=True)", "weights", "not normalised"),
            ("np.exp(scores)", "scores", "not a softmax"),
            ('"...qk,...kd->...qd"', '"...qk,...kd->...kd"', "not a matrix product|not recognised"),
            ("scores, -np.inf)", "scores, 0)", "masked with 0"),
            (
                '"...qd,...kd->...qk", queries, keys',
                '"...qd,...kd->...qk", queries, np.roll(keys, 1, 0)',
                "batch mixed up",
            ),
            ("keys)\n", "keys)\n    queries *= 1.5\n", "changed in place"),
            (
                "    weights = np.exp(scores)",
                "    scores = scores * (np.random.rand(*scores.shape) > 0.2)\n"
                "    weights = np.exp(scores)",
                "random|dropout active",
            ),
            (
                "values), weights",
                "values[:1] if values.ndim > 2 else values), weights",
                "batch mixed up",
            ),
            (
                "    return np",
                "    if mask is not None:\n        weights = weights * mask\n    return np",
                "right",
            ),
        ],
    ),
    "numpy_self": (
        NUMPY_SELF,
        [
            ("np.dot(x, w_k)", "np.dot(x, w_q)", "shared projection"),
            (" / np.sqrt(k.shape[-1])", "", "no scale"),
            ("np.sqrt(k.shape[-1])", "np.sqrt(x.shape[-1])", "√embed"),
            ("np.sqrt(k.shape[-1])", "np.sqrt(len(x))", "√tokens"),
            ("axis=-1", "axis=0", "softmax axis"),
            ("e.sum(axis=-1, keepdims=True)", "e.sum(axis=-1)", "keepdims"),
            ("weights.dot(v)", "weights.T.dot(v)", "weights transposed"),
            ("q.dot(k.T)", "k.dot(q.T)", "queries and keys swapped|swapped projections"),
            ("weights.dot(v)", "scores.dot(v)", "no softmax"),
            ("weights.dot(v)", "weights.dot(x)", "projection missing"),
            ("e / e.sum", "scores / scores.sum", "not a softmax"),
            ("    q = np", "    x -= x.mean()\n    q = np", "changed in place"),
        ],
    ),
}
