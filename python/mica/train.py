"""The training loop, and what is measured with it."""

from mica._mica import train as _train

EpochResult = _train.EpochResult
Evaluation = _train.Evaluation
Mistake = _train.Mistake
Outcome = _train.Outcome
StepRecord = _train.StepRecord
Trainer = _train.Trainer
accuracy = _train.accuracy
evaluate = _train.evaluate
