"""Models of transformers on regard: `attn_implementation="regard"`.

Importing this package makes the name known. Then either of

    model = AutoModelForCausalLM.from_pretrained(…, attn_implementation="regard")
    with regard.huggingface.using(model): …

computes every layer's attention by `regard.attend`, and `output_attentions=True` brings one
`regard.Attention` per layer instead of an N×N tensor.
"""

from __future__ import annotations

from regard.errors import MissingExtraError as _MissingExtraError

try:
    import transformers as _transformers
except ModuleNotFoundError as error:
    if error.name != "transformers":
        raise
    raise _MissingExtraError("regard.huggingface", "transformers", "huggingface") from None
if int(_transformers.__version__.partition(".")[0]) < 5:
    raise _MissingExtraError(
        "regard.huggingface", "transformers", "huggingface", _transformers.__version__, "5.0"
    )

from regard.huggingface.attention import regard_attention
from regard.huggingface.descriptor import MaskDescriptor
from regard.huggingface.families import supported_families
from regard.huggingface.masks import regard_mask
from regard.huggingface.registry import register
from regard.huggingface.switch import using

__all__ = [
    "MaskDescriptor",
    "regard_attention",
    "regard_mask",
    "register",
    "supported_families",
    "using",
]

register()
