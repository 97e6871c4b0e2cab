"""The name is known to transformers in whatever order the two are imported."""

from __future__ import annotations

import subprocess
import sys

import warm

MODEL = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM
kind = dict(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, vocab_size=9,
            intermediate_size=8)
model = LlamaForCausalLM._from_config(LlamaConfig(**kind), attn_implementation="regard")
a = model(torch.arange(6)[None], output_attentions=True).attentions[0]
assert type(a).__name__ == "Attention" and a.shape == (1, 2, 6, 6), a
assert float(a[0, 0, 0, 1:].abs().sum()) == 0  # causal

# weights may be requested when the model is made
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
FIRST = """
import sys, regard
assert not {'torch', 'transformers', 'numpy'} & set(sys.modules)
names = lambda: [type(f).__name__ for f in sys.meta_path]
assert names().count('_Waiting') == 1
import transformers.modeling_utils
assert '_Waiting' not in names()
assert 'regard.huggingface' not in sys.modules and 'regard.engine' not in sys.modules
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
assert 'regard' in ALL_ATTENTION_FUNCTIONS.valid_keys()
"""
# a stand-in, whose registries are others: `import regard` leaves them alone
OLD = """
import sys, types, regard
for name in ('transformers', 'transformers.modeling_utils'):
    sys.modules[name] = types.ModuleType(name)
sys.modules['transformers'].__version__ = '4.57.1'
from regard.arrival import _register
_register()
try:
    import regard.huggingface
except regard.errors.MissingExtraError as error:
    assert 'transformers 5.0 or newer, and 4.57.1 is installed' in str(error), error
    assert "pip install -U 'regard[huggingface]'" in str(error)
else:
    raise AssertionError('imported')
"""
TRAINING = """
import sys, torch, regard
x = torch.ones(1, 2, 5, 8, requires_grad=True)
a = regard.attend(x, x, x, mask=regard.Causal(), summaries=(regard.Entropy(),))
(a.output.sum() + a.entropy().sum() + a.received().max()).backward()
regard.divergence(a, regard.replay(x * 2, x)).sum().backward()
assert not {'torch._dynamo', 'torch.distributed.fsdp', 'sympy'} & set(sys.modules)
"""


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_regard_may_come_first_and_imports_nothing_heavy() -> None:
    run(FIRST + MODEL)


def test_models_may_come_first() -> None:
    """The process this one is forked from has imported transformers, and nothing of regard."""
    for program in ("import regard\n", "import regard.huggingface\n"):
        done = warm.run(program + MODEL, package=False)
        assert done.returncode == 0, done.stderr


def test_transformers_4_is_named_with_what_to_do() -> None:
    run(OLD)


def test_plain_training_imports_neither_compiler_nor_sharding() -> None:
    """As the first call of one of torch's custom operators does, in seconds."""
    run(TRAINING)
