"""Makes what initializers would fetch, small enough for a laptop: a tokenizer of bytes, a model of two layers, data."""

import base64
import json
import pathlib

from safetensors.torch import save_file
from torchtune.models.convert_weights import tune_to_hf
from torchtune.models.llama3_2 import llama3_2

SHAPE = {"vocab_size": 128256, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2, "embed_dim": 64}
workspace = pathlib.Path("/workspace")
model = workspace / "model"
(model / "original").mkdir(parents=True)

tokens = [f"{base64.b64encode(bytes([byte])).decode()} {byte}\n" for byte in range(256)]
(model / "original" / "tokenizer.model").write_text("".join(tokens))

weights = llama3_2(**SHAPE, intermediate_dim=128, max_seq_len=256).state_dict()
fresh = tune_to_hf(weights, num_heads=4, num_kv_heads=2, dim=64)
save_file({name: value.contiguous() for name, value in fresh.items()}, model / "model.safetensors")
config = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128256}
(model / "config.json").write_text(json.dumps(config))

lines = [{"instruction": f"count to {n}", "input": "", "output": " ".join(map(str, range(n)))} for n in range(1, 33)]
(workspace / "data.json").write_text(json.dumps(lines))
print("a model of 8 million parameters, 32 lines of data", flush=True)
