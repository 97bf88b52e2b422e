"""A corpus read from a real S3 server on loopback (moto's) gives the spool that the same files on disk give.

    python tools/s3_round_trip.py MODEL_FOLDER CORPUS_FILE...

Needs moto[server] and the built example `spool` (cargo build --release -p layerscope-corpus --examples).
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
SPOOL = ROOT / "target" / "release" / "examples" / "spool"


def fingerprint(model, inputs, environment):
    with tempfile.TemporaryDirectory() as folder:
        command = [SPOOL, model, f"{folder}/spool", "2", "token", *inputs]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed: {done.stderr.strip()}")
    # Document ids hold a file's place in the list, not its name, so the same files have the same fingerprint wherever they lie.
    return re.search(r"(\d+) groups, fingerprint ([0-9a-f]{32})", done.stdout).groups()


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
    server.stop()


if __name__ == "__main__":
    main()
