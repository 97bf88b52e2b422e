"""Makes the small PyTorch files that crates/layerscope-model/tests/checkpoint reads.

    python tools/make_torch_files.py

Needs torch. Every folder it writes holds one checkpoint; values are small whole numbers, so that the tests can name them.
"""

import json
import os
import shutil
import zipfile
from pathlib import Path

import torch

DATA = Path(__file__).resolve().parent.parent / "crates" / "layerscope-model" / "tests" / "data" / "torch"


def save(folder, content, name="pytorch_model.bin", **options):
    path = DATA / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path, **options)
    return path


class Attack:
    """Pickles as a call of os.system, which runs when a careless reader unpickles it."""

    def __reduce__(self):
        return os.system, ("echo this must never run",)


def main():
    shutil.rmtree(DATA, ignore_errors=True)
    ramp = torch.arange(6, dtype=torch.float32).reshape(2, 3)

    # What a model's state_dict() looks like: an OrderedDict with a `_metadata` attribute.
    module = torch.nn.Linear(3, 2)
    with torch.no_grad():
        module.weight.copy_(ramp)
        module.bias.copy_(torch.tensor([-1.0, 0.5]))
    state = module.state_dict()
    state["half"] = torch.tensor([1.0, -2.5, 65504.0, 2.0**-24], dtype=torch.float16)
    state["brain"] = torch.tensor([1.0, -2.5, 3.0e38, 1.0e-40], dtype=torch.bfloat16)
    state["scalar"] = torch.tensor(7.0)
    state["empty"] = torch.zeros(0, 3)
    state["steps"] = torch.tensor([1, 2], dtype=torch.int64)
    state["epoch"] = 3
    state["nothing"] = None
    save("plain", state)

    # Protocol 4 names globals differently; parameters, attributes and dtypes without a storage class are rebuilt differently.
    marked = ramp.clone()
    marked.note = "kept"
    parameter = torch.nn.Parameter(ramp + 10)
    noted = torch.nn.Parameter(ramp + 20)
    noted.note = "kept"
    odd = torch.zeros(2, dtype=torch.uint16)
    save("forms", {"marked": marked, "parameter": parameter, "noted": noted, "odd": odd}, pickle_protocol=4)

    # One storage, several views of it: tied weights, a slice with an offset, a transpose, a column, a repeated row.
    save("shared", {"first": ramp, "tied": ramp, "second_row": ramp[1]})
    save("transposed", {"weight": ramp.t(), "column": ramp[:, 1], "cube": torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)})
    save("expanded", {"weight": torch.ones(1, 3).expand(1000, 3)})

    save("sharded", {"a": ramp}, "pytorch_model-00001-of-00002.bin")
    save("sharded", {"b": ramp + 6}, "pytorch_model-00002-of-00002.bin")
    index = {
        "metadata": {"total_size": 48},
        "weight_map": {"a": "pytorch_model-00001-of-00002.bin", "b": "pytorch_model-00002-of-00002.bin"},
    }
    (DATA / "sharded" / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=2) + "\n")

    save("nan", {"weight": torch.tensor([1.0, 2.0, float("nan")])})
    save("nested", {"state_dict": {"weight": ramp}})
    save("tensor", ramp)
    save("malicious", {"weight": ramp, "attack": Attack()})
    save("legacy", {"weight": ramp}, _use_new_zipfile_serialization=False)
    (DATA / "script").mkdir()
    torch.jit.script(module).save(DATA / "script" / "pytorch_model.bin")

    # The same archive with its entries deflated, as a zip tool would write it back.
    (DATA / "compressed").mkdir()
    with zipfile.ZipFile(DATA / "plain" / "pytorch_model.bin") as plain:
        with zipfile.ZipFile(DATA / "compressed" / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as packed:
            for entry in plain.namelist():
                packed.writestr(zipfile.ZipInfo(entry), plain.read(entry), zipfile.ZIP_DEFLATED)

    whole = save("truncated", {"weight": ramp})
    whole.write_bytes(whole.read_bytes()[:-100])


if __name__ == "__main__":
    main()
