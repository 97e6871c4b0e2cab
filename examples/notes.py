"""Both lecture notes in figures: every number they print, computed, shown and checked.

    python examples/notes.py

Read it from top to bottom; each formula is a function of `regard.attention`, a page to read next.
"""

import torch
from torch import Tensor

from regard.attention import project, scale, score, softmax, weighted_sum
from regard.nn import MultiHeadAttention, SelfAttention, TokenEmbedding


def show(name: str, computed: Tensor, printed: object, digits: int = 4) -> None:
    """What was computed, which is within half a unit of the last printed place."""
    figures = str(computed.detach().numpy().round(digits) + 0.0).replace("\n", "\n" + " " * 26)
    print(f"{name:<26}{figures}")
    wanted = torch.tensor(printed, dtype=torch.float32)
    torch.testing.assert_close(computed, wanted, rtol=0, atol=0.501 * 10**-digits)


print("The first note: The cat sat. Each word has one fixed vector (token embedding)")
embed = TokenEmbedding(vocabulary=3, dim=4, positions=None)  # no positions in the example
embed.word.weight.data = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
THE, CAT, SAT = 0, 1, 2
x = embed(torch.tensor([THE, CAT, SAT]))
show("x", x, [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])

print("\nW_Q = W_K = W_V = I to begin with; d_k = 4")
w_q, w_k, w_v = torch.eye(4), torch.eye(4), torch.eye(4)
queries, keys, values = project(x, w_q), project(x, w_k), project(x, w_v)
for name, rows in (("Q = X W_Q", queries), ("K = X W_K", keys), ("V = X W_V", values)):
    show(name, rows, x.tolist())
scores = score(queries, keys)  # Q Kᵀ: every query against every key, its own too
show("scores of The", scores[THE], [2, 0, 2])
scaled = scale(scores, 1 / 4**0.5)
show("÷ √d_k", scaled[THE], [1, 0, 1])
weights = softmax(scaled)  # over the tokens: a row sums to 1
show("softmax", weights[THE], [0.4223, 0.1554, 0.4223])
output = weighted_sum(weights, values)
show("weights · V", output[THE], [0.8446, 0.5777, 0.8446, 0.5777])
layer = SelfAttention.from_weights(w_q, w_k, w_v)  # all of this as a layer that can be trained
show("the same as a layer", layer(x)[THE], output[THE].tolist())

gradients = torch.autograd.grad(layer(x).sum(), list(layer.parameters()))
assert all(g.any() for g in gradients)  # "then using back propagation it will be learned"

print("\nThe note prints [1.2669 0.9999 1.2669 0.9999]: the term of sat counted twice, and")
print("the weights cut off after four decimals, not rounded (which slip it was cannot be told)")
terms = (weights[THE] * 1e4).floor()[:, None] / 1e4 * values
show("The + cat + sat + sat", terms.sum(0) + terms[SAT], [1.2669, 0.9999, 1.2669, 0.9999])

print("\nWhy ÷ √d_k: one query, two keys")
pair = score(torch.tensor([[2.0, 3, 4, 1]]), torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1]]))[0]
show("[q·k1 q·k2]", pair, [6, 4])
for divisor, shares, gradient in ((1, [0.88, 0.12], 0.105), (2, [0.7311, 0.2689], 0.098)):
    raw = pair.clone().requires_grad_()
    both = softmax(scale(raw, 1 / divisor))
    show(f"softmax of [6 4] ÷ {divisor}", both, shares, digits=4 if divisor > 1 else 2)
    both[0].backward()  # p₁p₂ ÷ divisor
    show("  gradient at q·k1", raw.grad[0], gradient, digits=3)
print("Softer, as by a higher temperature; that gradients vanish takes a larger d_k than 4.")

print("\nThe contextual embedding: cat in two sentences, one row before and two after")
cat_sat, sat_cat = x, embed(torch.tensor([SAT, CAT, SAT]))
show("cat before, both times", torch.stack([cat_sat[1], sat_cat[1]]), [[0, 1, 0, 1]] * 2)
show("The cat sat: after", layer(cat_sat)[1], [0.5777, 0.8446, 0.5777, 0.8446])
show("sat cat sat: after", layer(sat_cat)[1], [2 / 3, 1, 2 / 3, 1])

print("\nThe second note writes Q = W·X, tokens as columns: the transpose of X·W")
w = torch.arange(16.0).reshape(4, 4)
show("(Wᵀ Xᵀ)ᵀ = X W", (w.T @ x.T).T, project(x, w).tolist())

print("\nIts multi-head attention: each head on its own, concatenated, combined by W_O")
torch.manual_seed(0)
heads = MultiHeadAttention(4, num_heads=2, bias=False)
rows = [m.weight.T.chunk(2, 1) for m in (heads.w_q, heads.w_k, heads.w_v)]
by_hand = [SelfAttention.from_weights(*own)(x) for own in zip(*rows, strict=True)]
show("W_O · [head 1, head 2]", heads(x), heads.w_o(torch.cat(by_hand, -1)).tolist())
