"""Layerscope: an instrument for looking inside Transformers.

Give it a checkpoint and a text. It measures the geometry of contextualized embeddings at every layer: norms and variances of every token,
anisotropy and isotropy, intrinsic dimension, and how they change from layer to layer, between models and during training.

>>> import layerscope as ls
>>> run = ls.measure("pocket-bert", corpus="pocket/corpus/held-out.txt", limit=200, frequency="3:10000")
>>> round(run.value("slope_v_on_m", layer=3))  # the norm of a token's mean determines its variance
-1
>>> run.report("target/report.html").name
'report.html'

Use `measure` to run a corpus through a model, `track` to follow a training run, and `weights` to measure a checkpoint without a corpus.
`Collector` takes states from any source; `import_states` reads them from files; `trace` and `hook` take them from torch models. `load` reads a
finished run, `merge` joins shards, and `compare` puts runs side by side. `layerscope.ray.measure` uses a cluster. Every error is a subclass of
`Error`.
"""

from ._collector import Collector
from ._compare import Comparison, compare
from ._errors import CorpusError, DefectError, Error, FileError, Interrupted, ModelError, RefusedError, UsageError
from ._import import import_states
from ._layerscope import VERSION as __version__
from ._measure import measure, measures, merge, track, weights
from ._run import Curve, Run, figures, load, report
from ._table import Table
from ._torch import hook, trace
from ._training import Probe, callback

__all__ = [
    "Collector",
    "Comparison",
    "CorpusError",
    "Curve",
    "DefectError",
    "Error",
    "FileError",
    "Interrupted",
    "ModelError",
    "Probe",
    "RefusedError",
    "Run",
    "Table",
    "UsageError",
    "__version__",
    "callback",
    "compare",
    "figures",
    "hook",
    "import_states",
    "load",
    "measure",
    "measures",
    "merge",
    "report",
    "trace",
    "track",
    "weights",
]
