"""The reference library's models traced, against our own engine; any module hooked; a training followed."""

from __future__ import annotations

import pickle
from pathlib import Path

import layerscope as ls
import numpy as np
import oracle
import pytest
import torch
from reference import assert_agree, prepared
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

ROOT = Path(__file__).resolve().parents[2]
TEXTS = (ROOT / "pocket/corpus/held-out.txt").read_text().splitlines()[:60]


def loaded(name):
    folder = ROOT / "pocket" / name
    return AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager"), AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("name", ["pocket-bert", "pocket-gpt", "pocket-llama", "pocket-pythia"])
def test_trace_agrees_with_our_engine(name, tmp_path):
    model, tokenizer = loaded(name)
    corpus = tmp_path / "texts.txt"
    corpus.write_text("\n".join(TEXTS) + "\n")
    settings = {"measures": "all", "frequency": "3:1000", "sample_states": 300}
    ours = ls.measure(ROOT / "pocket" / name, corpus, progress=False, tokens="none", massive=1.3, **settings)
    model.train()
    theirs = ls.trace(model, tokenizer, TEXTS, batch_size=7, massive=1.3, **settings)
    assert model.training
    key = lambda row: tuple(row[column] for column in ("layer", "point", "selection", "measure", "variant"))
    traced = {key(row): row for row in theirs.layers}
    scale = {(row["layer"], row["point"]): row["value"] for row in ours.layers if row["measure"] == "q" and row["selection"] == "all"}
    compared = massive = 0
    for row in ours.layers:
        if row["measure"] == "predicted_q":
            continue
        other = traced[key(row)]
        assert other["n"] == row["n"], row
        if row["measure"] == "massive_activations":
            assert row["value"] == other["value"], row
            massive += row["value"]
        if row["measure"] in ("q", "m", "v", "v_within", "v_between"):
            assert abs(row["value"] - other["value"]) <= 1e-5 * scale[row["layer"], row["point"]], row
            compared += 1
        elif row["measure"] in ("mean_cosine", "self_similarity", "m_over_q", "intra_sentence_similarity", "isoscore", "linear_cka_next"):
            assert (row["value"] is None) == (other["value"] is None), row
            assert row["value"] is None or abs(row["value"] - other["value"]) <= 1e-5, row
            compared += 1
    assert compared > 10 * len(scale) and (massive > 0 or name == "pocket-bert")  # whose norms are alike
    assert sorted(zip(ours.groups["layer"], ours.groups["group_id"], ours.groups["n"])) == sorted(
        zip(theirs.groups["layer"], theirs.groups["group_id"], theirs.groups["n"])
    )
    assert ours.manifest["corpus"]["documents"] == theirs.manifest["corpus"]["documents"]


@pytest.mark.parametrize("name", [f"{path.parent.name}/{path.name}" for family in ("bert", "gpt2") for path in sorted((ROOT / "fixtures" / family).iterdir())])
def test_trace_agrees_on_the_reference_librarys_own_checkpoints(name, tmp_path):
    """Every fixture of the two families: sequences of 1 to 47 tokens, in padded batches of the reference library and without padding in ours."""
    texts, _ = prepared(name, tmp_path / "model")
    model = AutoModel.from_pretrained(tmp_path / "model", dtype=torch.float32, attn_implementation="eager")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "model/tokenizer.json"))
    settings = {"measures": "norm,cosine,spectrum", "frequency": "2:1000"}
    ours = ls.measure(tmp_path / "model", tmp_path / "model/texts.txt", progress=False, tokens="none", **settings)
    theirs = ls.trace(model, tokenizer, texts, batch_size=3, **settings)
    assert_agree(ours, theirs)
    assert set(zip(ours.layers["layer"], ours.layers["point"])) == set(zip(theirs.layers["layer"], theirs.layers["point"]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_of_every_kind(dtype):
    x = torch.randn(40, 6, generator=torch.Generator().manual_seed(1)).to(dtype)
    groups = torch.arange(40) % 5
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    for device in devices:
        for given in (x, x.clone().requires_grad_(), x.t().contiguous().t(), x.reshape(4, 10, 6)):
            collector = ls.Collector(dim=6, measures="norm")
            collector.update(2, given.to(device), groups=groups.to(device))
            expected = oracle.moments(x.to(torch.float32).numpy())
            assert collector.finish().value("v", layer=2) == pytest.approx(expected["v"], rel=1e-9)
    with pytest.raises(ls.UsageError, match=r"states are int64 \[8, 6\]; give float16, bfloat16, float32 or float64"):
        ls.Collector(dim=6).update(0, groups.reshape(8, 5).repeat(1, 6)[:, :6])
    with pytest.raises(ls.UsageError, match="an array cannot be read: .*meta"):
        ls.Collector(dim=6).update(0, torch.empty(3, 6, device="meta", dtype=dtype))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["pocket-bert", "pocket-gpt"])
def test_a_model_on_a_gpu_is_traced_like_one_on_the_host(name):
    model, tokenizer = loaded(name)
    settings = {"measures": "norm,cosine,spectrum", "frequency": "3:1000"}
    host = ls.trace(model, tokenizer, TEXTS, batch_size=7, **settings)
    device = ls.trace(model.to("cuda"), tokenizer, TEXTS, batch_size=7, **settings)
    assert_agree(host, device)
    with ls.hook(model, measures="norm") as watch, torch.no_grad():
        model(**tokenizer(TEXTS[0], return_tensors="pt").to("cuda"))
    assert watch.finish().value("q", layer=1) > 0


class Blocks(torch.nn.Module):
    """A little network of patches, with no tokens anywhere."""

    def __init__(self):
        super().__init__()
        self.patches = torch.nn.Linear(9, 12)
        self.blocks = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(12, 12), torch.nn.GELU()) for _ in range(3))

    def forward(self, images):
        states = self.patches(images)
        for block in self.blocks:
            states = block(states)
        return states


def test_any_module_can_be_hooked():
    torch.manual_seed(0)
    network, images = Blocks(), torch.randn(8, 5, 9)
    seen = [network.patches(images)]
    for block in network.blocks:
        seen.append(block(seen[-1]))
    with ls.hook(network, measures="all", frequency="1:100") as watch:
        for part in images.split(3):
            watch.batch(groups=torch.arange(5).expand(len(part), 5))
            network(part)
    run = watch.finish()
    assert watch.layer_names == {0: "input", 1: "blocks.0", 2: "blocks.1", 3: "blocks.2"}
    for layer, states in enumerate(seen):
        x = states.detach().numpy().reshape(-1, 12)
        assert run.value("q", layer=layer) == pytest.approx(oracle.moments(x)["q"], rel=1e-6)
        documents = np.repeat(np.arange(8), 5)
        assert run.value("curvature", layer=layer) == pytest.approx(oracle.curvature(x, documents), rel=1e-4)
    assert run.value("linear_cka_next", layer=1) == pytest.approx(
        oracle.linear_cka(*(seen[i].detach().numpy().reshape(-1, 12) for i in (1, 2))), rel=1e-4
    )
    before = pickle.dumps(watch.collector)
    network(images)
    assert pickle.dumps(watch.collector) == before, "hooks are gone"


def test_what_cannot_be_hooked_is_refused():
    with pytest.raises(ls.UsageError, match="no list of blocks"):
        with ls.hook(torch.nn.Linear(2, 2)):
            pass
    with ls.hook([torch.nn.Linear(3, 4)], take_input=False) as watch:
        pass
    with pytest.raises(ls.UsageError, match="never called"):
        watch.finish()
    narrow = torch.nn.Linear(4, 2)
    wide = torch.nn.Linear(3, 4)
    with ls.hook({"wide": wide, "narrow": narrow}, take_input=False):
        with pytest.raises(ls.UsageError, match="module narrow gives 2 components instead of 4"):
            narrow(wide(torch.ones(5, 3)))


def test_a_training_is_followed(tmp_path):
    model, tokenizer = loaded("pocket-gpt")
    probe = ls.Probe(tokenizer, TEXTS[:20], tmp_path / "trajectory", measures="norm,cosine,spectrum", frequency="2:100")
    first = probe(model, 0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)
    second = probe(model, 100)
    assert first.keys() == second.keys() and first != second
    assert "layerscope/mean_cosine/6-final_norm" in first
    run = probe.run()
    assert sorted(set(run.layers["step"])) == [0, 100]
    assert [entry["status"] for entry in run.manifest["trajectory"]] == ["measured", "measured"]
    assert run.value("mean_cosine", layer=3, step=100) == second["layerscope/mean_cosine/3"]
    with pytest.raises(ls.UsageError, match=r"mean_cosine at several steps \(0, 100\); give a step"):
        run.value("mean_cosine", layer=3)
    assert run.report(tmp_path / "report.html").stat().st_size > 10_000
    assert "step100" in run.summary()


def test_the_trainer_calls_back(tmp_path):
    pytest.importorskip("accelerate")
    from transformers import AutoModelForCausalLM, DataCollatorForLanguageModeling, Trainer, TrainingArguments

    folder = ROOT / "pocket/pocket-gpt"
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    data = [tokenizer(text, truncation=True, max_length=32) for text in TEXTS[:24]]
    logged = []
    measuring = ls.callback(
        tokenizer, TEXTS[24:34], tmp_path / "trajectory", every=2, log=lambda values, step: logged.append((step, values)), measures="norm,cosine"
    )
    arguments = TrainingArguments(tmp_path / "out", max_steps=5, per_device_train_batch_size=4, report_to=[], use_cpu=True, save_strategy="no")
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    Trainer(model, arguments, train_dataset=data, data_collator=collator, callbacks=[measuring]).train()
    assert [step for step, _ in logged] == [0, 2, 4, 5]
    assert measuring.probe.steps() == ["step0", "step2", "step4", "step5"]
    assert ls.load(tmp_path / "trajectory").manifest["trajectory"][-1]["step"] == 5


def test_curves_go_where_the_training_reports_to(tmp_path, monkeypatch):
    """TensorBoard reads back what was logged; an active run of Weights & Biases (a stand-in that remembers) hears the same."""
    import sys
    import types

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    heard = {}
    stand_in = types.SimpleNamespace(run=object(), log=lambda values, step: heard.update({step: values}))
    monkeypatch.setitem(sys.modules, "wandb", stand_in)
    model, tokenizer = loaded("pocket-gpt")
    measuring = ls.callback(tokenizer, TEXTS[:10], tmp_path / "trajectory", every=5, measures="norm,cosine")
    arguments = types.SimpleNamespace(report_to=["tensorboard"], output_dir=str(tmp_path / "out"))
    for step in (0, 3, 5):
        state = types.SimpleNamespace(global_step=step, is_world_process_zero=True)
        (measuring.on_train_begin if step == 0 else measuring.on_step_end)(arguments, state, None, model=model)
    measuring.on_train_end(arguments, state, None, model=model)
    assert sorted(heard) == [0, 5]
    read = EventAccumulator(str(tmp_path / "out/runs/layerscope")).Reload()
    name = "layerscope/mean_cosine/3"
    assert [event.step for event in read.Scalars(name)] == [0, 5]
    expected = ls.load(tmp_path / "trajectory/steps/step5").value("mean_cosine", layer=3)
    assert heard[5][name] == expected
    assert read.Scalars(name)[1].value == pytest.approx(expected, rel=1e-6)


def test_bad_requests():
    model, tokenizer = loaded("pocket-gpt")
    with pytest.raises(ls.UsageError, match="no texts"):
        ls.trace(model, tokenizer, [])
    with pytest.raises(ls.UsageError, match="texts contain int"):
        ls.trace(model, tokenizer, [3])
    with pytest.raises(ls.UsageError, match="specials"):
        ls.trace(model, tokenizer, TEXTS, specials="maybe")
    with pytest.warns(UserWarning, match="were cut at 8 tokens"):
        ls.trace(model, tokenizer, TEXTS[:5], max_length=8, measures="norm")
