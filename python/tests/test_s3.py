"""Object stores, against a real S3 server on loopback: the corpus read from it, runs written to it and merged from it."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import layerscope as ls
import pytest
from conftest import HELD_OUT, ROOT
from test_collector import assert_equal_tables

boto3 = pytest.importorskip("boto3")
from moto.server import ThreadedMotoServer  # noqa: E402

SETTINGS = {"limit": 60, "measures": "norm,cosine,spectrum", "frequency": "3:1000", "batch_tokens": 128}
CORPUS = "s3://layerscope/texts/held-out.txt"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture(scope="module")
def server():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=free_port(), verbose=False)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def bucket(server, monkeypatch, tmp_path):
    """A bucket with a text, and the environment that leads there; objects by name."""
    host, port = server.get_host_and_port()
    variables = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
    for name, value in {**variables, "AWS_ENDPOINT": f"http://{host}:{port}", "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LAYERSCOPE_CACHE", str(tmp_path / "cache"))
    client = boto3.client("s3", endpoint_url=f"http://{host}:{port}")
    client.create_bucket(Bucket="layerscope")
    bucket = boto3.resource("s3", endpoint_url=f"http://{host}:{port}").Bucket("layerscope")
    bucket.objects.delete()
    bucket.upload_file(HELD_OUT, "texts/held-out.txt")
    return bucket


def names(bucket, prefix):
    return {entry.key.removeprefix(prefix) for entry in bucket.objects.filter(Prefix=prefix)}


def command(*words):
    return subprocess.run([sys.executable, "-m", "layerscope", *words], capture_output=True, text=True, timeout=600)


def test_a_run_goes_from_store_to_store(bucket, tmp_path):
    away = ls.measure("pocket-bert", CORPUS, "s3://layerscope/runs/whole", progress=False, **SETTINGS)
    here = ls.measure("pocket-bert", HELD_OUT, tmp_path / "here", progress=False, **SETTINGS)
    files = {path.name for path in (tmp_path / "here").iterdir()}
    assert names(bucket, "runs/whole/") == files and "manifest.json" in files
    for name in ("layers", "groups", "components", "spectra", "tokens", "norms"):
        content = bucket.Object(f"runs/whole/{name}.parquet").get()["Body"].read()
        assert content == (tmp_path / "here" / f"{name}.parquet").read_bytes(), name
    assert away.layers.to_dict() == ls.load("s3://layerscope/runs/whole").layers.to_dict()
    assert not list((tmp_path / "cache").rglob("*.parquet")), "what is there is not kept here"
    again = ls.measure("pocket-bert", CORPUS, "s3://layerscope/runs/whole", progress=False, **SETTINGS)
    assert again.manifest["wall_seconds"] == away.manifest["wall_seconds"], "a finished run is not measured again"
    with pytest.raises(ls.RefusedError, match=r"s3://layerscope/runs/whole holds another run: .*seed"):
        ls.measure("pocket-bert", CORPUS, "s3://layerscope/runs/whole", progress=False, seed=1, **SETTINGS)
    assert "norms.parquet" in names(bucket, "runs/whole/"), "a refusal takes nothing away"
    damaged = bytearray((tmp_path / "here/layers.parquet").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    bucket.put_object(Key="runs/whole/layers.parquet", Body=bytes(damaged))
    with pytest.raises(ls.FileError, match=r"layers\.parquet: damaged, or of another run"):
        ls.load("s3://layerscope/runs/whole")


def test_shards_are_merged_from_store_to_store(bucket, tmp_path):
    whole = ls.measure("pocket-bert", HELD_OUT, progress=False, **SETTINGS)
    flags = [word for name, value in SETTINGS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    for shard in range(2):
        out = f"s3://layerscope/runs/shard-{shard}"
        done = command("measure", "--model", "pocket-bert", "--corpus", CORPUS, "--out", out, "--shard", f"{shard}/2", "--quiet", *flags)
        assert done.returncode == 0, done.stderr
    places = [f"s3://layerscope/runs/shard-{shard}" for shard in range(2)]
    done = command("merge", *places, "--out", "s3://layerscope/runs/merged", "--quiet")
    assert done.returncode == 0, done.stderr
    merged = ls.load("s3://layerscope/runs/merged")
    assert_equal_tables(merged, whole, 1e-9)
    assert done.stdout.strip() == merged.summary().strip() == command("show", "s3://layerscope/runs/merged").stdout.strip()
    assert_equal_tables(ls.merge(places), merged)
    with pytest.raises(ls.RefusedError, match="shard 1 of 2 is missing"):
        ls.merge(places[:1], "s3://layerscope/runs/part")
    with pytest.raises(ls.RefusedError, match="s3://layerscope/runs/nowhere: no finished run here"):
        ls.merge([places[0], "s3://layerscope/runs/nowhere"])
    assert ls.compare([*places], measures="q").labels[0] and ls.report(places, tmp_path / "report.html").exists()


def test_another_machine_goes_on_from_the_checkpoint(bucket, tmp_path, monkeypatch):
    settings = {**SETTINGS, "limit": 3000, "threads": 1}
    corpus = str(ROOT / "pocket/corpus/sample.txt.gz")

    def stop(event):
        if "memory estimate" in event.get("text", ""):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(ls.Interrupted, match="interrupted after batch"):
        ls.measure("pocket-bert", corpus, "s3://layerscope/runs/stopped", progress=stop, **settings)
    there = names(bucket, "runs/stopped/")
    assert ".work/plan.json" in there and any(name.startswith(".work/checkpoint") for name in there) and "manifest.json" not in there
    monkeypatch.setenv("LAYERSCOPE_CACHE", str(tmp_path / "another machine"))
    heard = []
    resumed = ls.measure("pocket-bert", corpus, "s3://layerscope/runs/stopped", progress=heard.append, **settings)
    assert any(event.get("text", "").startswith("resuming") for event in heard)
    whole = ls.measure("pocket-bert", corpus, progress=False, **settings)
    assert resumed.layers.to_dict() == whole.layers.to_dict() and resumed.groups.to_dict() == whole.groups.to_dict()
    assert not any(name.startswith(".work") for name in names(bucket, "runs/stopped/"))


@contextmanager
def closing_door(host, port, last):
    """A way to the server that is shut once a file of the name `last` was put through it; whether it is shut."""
    shut = threading.Event()

    class Door(BaseHTTPRequestHandler):
        def forward(self):
            if shut.is_set():
                self.send_error(503)
                return
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = http.client.HTTPConnection(host, port)
            connection.request(self.command, self.path, content, dict(self.headers))
            answer = connection.getresponse()
            body = answer.read()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "transfer-encoding"):
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            if self.command == "PUT" and self.path.endswith(last):
                shut.set()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward

        def log_message(self, *_):
            pass

    door = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=door.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{door.server_address[1]}", shut
    finally:
        door.shutdown()
        door.server_close()


def test_a_store_that_goes_away_loses_nothing(bucket, server, monkeypatch):
    """The store answers no more once the plan is there: the run ends here, and is put there by the same call once the store is back."""
    host, port = server.get_host_and_port()
    heard = []
    with closing_door(host, port, ".work/plan.json") as (address, shut):
        monkeypatch.setenv("AWS_ENDPOINT", address)
        with pytest.raises(ls.FileError, match="the upload failed .* the run is complete in .* and the same command resumes") as caught:
            ls.measure("pocket-bert", HELD_OUT, "s3://layerscope/runs/kept", progress=heard.append, **SETTINGS)
        assert shut.is_set() and "\n" not in str(caught.value)
    assert "manifest.json" not in names(bucket, "runs/kept/")
    monkeypatch.setenv("AWS_ENDPOINT", f"http://{host}:{port}")
    assert any(event["event"] == "measuring" for event in heard)
    heard.clear()
    kept = ls.measure("pocket-bert", HELD_OUT, "s3://layerscope/runs/kept", progress=heard.append, **SETTINGS)
    assert not any(event["event"] == "measuring" for event in heard), "it was not measured again"
    assert_equal_tables(kept, ls.measure("pocket-bert", HELD_OUT, progress=False, **SETTINGS))
    there = names(bucket, "runs/kept/")
    assert "manifest.json" in there and not any(name.startswith(".work") for name in there)


def test_an_unreachable_store_is_one_line(bucket, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    for call in (
        lambda: ls.measure("pocket-bert", HELD_OUT, "s3://layerscope/runs/x", progress=False, **SETTINGS),
        lambda: ls.load("s3://layerscope/runs/x"),
        lambda: ls.measure("pocket-bert", CORPUS, progress=False, **SETTINGS),
    ):
        with pytest.raises(ls.Error, match="s3://layerscope/.*") as caught:
            call()
        assert "\n" not in str(caught.value) and not isinstance(caught.value, ls.DefectError)
    with pytest.raises(ls.UsageError, match="cannot write to web servers"):
        ls.measure("pocket-bert", HELD_OUT, "https://example.org/run", progress=False)


def test_collectors_and_weights_go_there_too(bucket, states):
    from test_collector import fed

    collector = fed(states)
    assert_equal_tables(collector.finish("s3://layerscope/runs/states"), collector.finish())
    weights = ls.weights("pocket-gpt", out="s3://layerscope/runs/weights")
    assert weights.layers.to_dict() == ls.weights("pocket-gpt").layers.to_dict()


def test_a_cluster_works_in_a_store(bucket):
    ray = pytest.importorskip("ray")
    from layerscope import ray as lsray

    ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20, log_to_driver=False)
    try:
        run = lsray.measure("pocket-bert", CORPUS, "s3://layerscope/runs/cluster", workers=3, progress=False, **SETTINGS)
    finally:
        ray.shutdown()
    assert_equal_tables(run, ls.measure("pocket-bert", HELD_OUT, progress=False, **SETTINGS), 1e-9)
    assert not names(bucket, "runs/cluster.shards/")
