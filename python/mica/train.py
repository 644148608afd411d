"""What a training loop needs beside the step."""

from mica._mica import train as _train

accuracy = _train.accuracy
