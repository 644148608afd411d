"""The training loop, what is measured with it, and what is told of it."""

from mica._mica import train as _train

EpochResult = _train.EpochResult
Evaluation = _train.Evaluation
Mistake = _train.Mistake
Outcome = _train.Outcome
StepRecord = _train.StepRecord
Trainer = _train.Trainer
accuracy = _train.accuracy
confusion_matrix = _train.confusion_matrix
evaluate = _train.evaluate

# Metrics
Accuracy = _train.Accuracy
BitsPerCharacter = _train.BitsPerCharacter
MeanAbsoluteError = _train.MeanAbsoluteError
MeanIoU = _train.MeanIoU
MeanSquaredError = _train.MeanSquaredError
Meter = _train.Meter
Metric = _train.Metric
Perplexity = _train.Perplexity
R2Score = _train.R2Score
RootMeanSquaredError = _train.RootMeanSquaredError
TopKAccuracy = _train.TopKAccuracy


class Callback:
    """Is told what happens in a run; one's own derives from it and defines what it wants to know.

    `trainer.stop()` ends the run from any of them.
    """

    def on_fit_begin(self) -> None:
        """Before the first step."""

    def on_step_end(self, step: int) -> None:
        """After every step; where a callback defines it, each step is a launch of its own."""

    def on_log(self, record: StepRecord) -> None:
        """Every 50 steps."""

    def on_evaluation_end(self, step: int, evaluation: Evaluation) -> None:
        """Also of the evaluations between the ends of epochs."""

    def on_epoch_end(self, result: EpochResult) -> None:
        """After the evaluation of an epoch."""

    def on_fit_end(self, outcome: Outcome) -> None:
        """After the last step."""
