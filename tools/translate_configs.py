"""Writes today's form of every published config.json under tests/configs: what the reference library saves after reading it."""

import json
import pathlib

from transformers import AutoConfig

CONFIGS = pathlib.Path(__file__).parent.parent / "crates/layerscope-model/tests/configs"

for published in sorted((CONFIGS / "published").glob("*.json")):
    keys = json.loads(published.read_text())
    config = AutoConfig.for_model(keys.pop("model_type"), **keys)
    (CONFIGS / "today" / published.name).write_text(json.dumps(config.to_dict(), indent=1) + "\n")
