"""The name is known to transformers in whatever order the two are imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

MODEL = """
config = LlamaConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, vocab_size=9,
                     intermediate_size=8)
model = LlamaForCausalLM._from_config(config, attn_implementation="regard")
a = model(torch.arange(6)[None], output_attentions=True).attentions[0]
assert type(a).__name__ == "Attention" and a.shape == (1, 2, 6, 6), a
assert float(a[0, 0, 0, 1:].abs().sum()) == 0  # causal
"""
ORDERS = {
    "regard first": "import regard, torch; from transformers import LlamaConfig, LlamaForCausalLM",
    "models first": "import torch; from transformers import LlamaConfig, LlamaForCausalLM; "
    "import regard",
    "adapter too": "import regard.huggingface, torch; "
    "from transformers import LlamaConfig, LlamaForCausalLM",
}


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("order", ["regard first", "models first", "adapter too"])
def test_any_order(order: str) -> None:
    run(ORDERS[order] + MODEL)


def test_nothing_heavy_is_imported_and_the_hook_goes() -> None:
    run(
        "import sys, regard\n"
        "assert not {'torch', 'transformers', 'numpy'} & set(sys.modules)\n"
        "names = lambda: [type(f).__name__ for f in sys.meta_path]\n"
        "assert names().count('_Waiting') == 1\n"
        "import transformers.modeling_utils\n"
        "assert '_Waiting' not in names()\n"
        "assert 'regard.huggingface' not in sys.modules and 'regard.engine' not in sys.modules\n"
        "from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS\n"
        "assert 'regard' in ALL_ATTENTION_FUNCTIONS.valid_keys()\n"
    )


def test_plain_training_imports_neither_compiler_nor_sharding() -> None:
    """As the first call of one of torch's custom operators does, in seconds."""
    run(
        "import sys, torch, regard\n"
        "x = torch.ones(1, 2, 5, 8, requires_grad=True)\n"
        "a = regard.attend(x, x, x, mask=regard.Causal(), summaries=(regard.Entropy(),))\n"
        "(a.output.sum() + a.entropy().sum() + a.received().max()).backward()\n"
        "regard.divergence(a, regard.replay(x * 2, x)).sum().backward()\n"
        "assert not {'torch._dynamo', 'torch.distributed.fsdp', 'sympy'} & set(sys.modules)\n"
    )


ASKED = """
kind = dict(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, vocab_size=9,
            intermediate_size=8)
config = LlamaConfig(**kind, attn_implementation="regard", output_attentions=True)
a = LlamaForCausalLM(config)(torch.arange(6)[None]).attentions[0]
assert type(a).__name__ == "Attention", a
config = LlamaConfig(**kind, attn_implementation="regard")
config.output_attentions = True
for name in ("sdpa", "flash_attention_2"):
    try:
        LlamaConfig(**kind, attn_implementation=name, output_attentions=True)
    except Exception as error:
        assert "eager" in str(error)
    else:
        raise AssertionError("transformers' own rule is gone")
"""


@pytest.mark.parametrize("order", ["regard first", "models first", "adapter too"])
def test_weights_may_be_asked_for_at_load(order: str) -> None:
    run(ORDERS[order] + ASKED)


def test_transformers_4_is_named_with_what_to_do() -> None:
    """A stand-in: its registries are others, and `import regard` leaves them alone."""
    run(
        "import sys, types, regard\n"
        "for name in ('transformers', 'transformers.modeling_utils'):\n"
        "    sys.modules[name] = types.ModuleType(name)\n"
        "sys.modules['transformers'].__version__ = '4.57.1'\n"
        "from regard.arrival import _register\n"
        "_register()\n"
        "try:\n"
        "    import regard.huggingface\n"
        "except regard.errors.MissingExtraError as error:\n"
        "    assert 'transformers 5.0 or newer, and 4.57.1 is installed' in str(error), error\n"
        "    assert \"pip install -U 'regard[huggingface]'\" in str(error)\n"
        "else:\n"
        "    raise AssertionError('imported')\n"
    )
