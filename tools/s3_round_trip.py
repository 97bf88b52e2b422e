"""A corpus read from a real S3 server on loopback (moto's) gives the spool that the same files on disk give, and a file of several
parts that is put there comes back as it was.

    python tools/s3_round_trip.py MODEL_FOLDER CORPUS_FILE...

Needs moto[server] and the built examples (cargo build --release -p layerscope-corpus -p layerscope-remote --examples).
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "target" / "release" / "examples"


def fingerprint(model, inputs, environment):
    with tempfile.TemporaryDirectory() as folder:
        command = [EXAMPLES / "spool", model, f"{folder}/spool", "2", "token", *inputs]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed: {done.stderr.strip()}")
    # Document ids hold a file's place in the list, not its name, so the same files have the same fingerprint wherever they lie.
    return re.search(r"(\d+) groups, fingerprint ([0-9a-f]{32})", done.stdout).groups()


def check_copies(environment):
    content = os.urandom(40 << 20)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "here").write_bytes(content)
        for source, target in [(f"{folder}/here", "s3://corpora/parts"), ("s3://corpora/parts", f"{folder}/back")]:
            subprocess.run([EXAMPLES / "copy", source, target], env=environment, check=True)
        if Path(folder, "back").read_bytes() != content:
            sys.exit("s3://corpora/parts: what came back is not what was put")
    print("s3://corpora/parts: 40 MiB in parts came back as they were")


def main():
    model, *files = sys.argv[1:]
    if not files:
        sys.exit(__doc__)
    files = sorted(files, key=lambda name: Path(name).name)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    credentials = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    os.environ.update(credentials, AWS_DEFAULT_REGION="us-east-1")
    client = boto3.client("s3", endpoint_url=f"http://{host}:{port}")
    client.create_bucket(Bucket="corpora")
    for file in files:
        client.upload_file(file, "corpora", f"texts/{Path(file).name}")
    environment = {**os.environ, **credentials, "AWS_ENDPOINT": f"http://{host}:{port}", "AWS_ALLOW_HTTP": "true"}
    here = fingerprint(model, files, environment)
    for address in ["s3://corpora/texts/", "s3://corpora/texts/*"]:
        there = fingerprint(model, [address], environment)
        if here != there:
            sys.exit(f"{address}: {there}, but on disk {here}")
        print(f"{address}: {there[0]} groups, fingerprint {there[1]}, as on disk")
    check_copies(environment)
    server.stop()


if __name__ == "__main__":
    main()
