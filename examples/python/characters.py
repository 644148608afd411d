"""A language model over the characters of a text: python characters.py [--data FILE] [--steps 600].

It learns the text as streams beside each other, some characters at a step, and carries the state of
the LSTM from step to step; the last 5 % of the text are for the test. Then it writes on from a
prompt. `scripts/setup --corpus` makes data/kjv.txt, the King James Bible.
"""

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

import mica
import mica.nn.functional as F
from mica import nn

State = tuple[mica.Tensor, mica.Tensor]
HIDDEN, LAYERS, STREAMS, WINDOW = 256, 2, 32, 64

parser = argparse.ArgumentParser()
parser.add_argument("--data", default="data/kjv.txt", help="any text in UTF-8")
parser.add_argument("--steps", type=int, default=600)
parser.add_argument("--device", default="cuda" if mica.cuda.is_available() else "cpu")
parser.add_argument("--temperature", type=float, default=0.7)
parser.add_argument("--top-k", type=int, default=10)
args = parser.parse_args()
mica.manual_seed(0)

text = Path(args.data).read_text(encoding="utf-8")
vocabulary = mica.text.Vocabulary.characters(text)
tokens = mica.tensor(vocabulary.encode(text), device=args.device)
test_size = len(tokens) // 20
if test_size < 2 * WINDOW:
    raise SystemExit(f"{args.data} is too short")


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(vocabulary), 64)
        self.lstm = nn.LSTM(64, HIDDEN, num_layers=LAYERS)
        self.out = nn.Linear(HIDDEN, len(vocabulary))

    def forward(self, x: mica.Tensor, state: State) -> tuple[mica.Tensor, State]:
        y, state = self.lstm(self.embedding(x), state)
        return self.out(y), state


def first_state(sequences: int) -> State:
    h, c = (mica.zeros(LAYERS, sequences, HIDDEN, device=args.device) for _ in range(2))
    return h, c


def windows(part: mica.Tensor, streams: int) -> Iterator[tuple[mica.Tensor, mica.Tensor]]:
    """Characters (WINDOW, streams) and the ones after them; each goes on where the last ended."""
    length = len(part) // streams
    rows = part[: length * streams].reshape(streams, length).t().contiguous()
    for at in range(0, length - WINDOW, WINDOW):
        yield rows[at : at + WINDOW], rows[at + 1 : at + WINDOW + 1]


net = Model().to(args.device)
optimizer = mica.optim.AdamW(net.parameters(), lr=0.004)
h, c = first_state(STREAMS)


@mica.compile  # the state lies outside: what a step writes there, the next one begins with
def step(x: mica.Tensor, y: mica.Tensor) -> mica.Tensor:
    logits, (h_after, c_after) = net(x, (h, c))
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    mica.optim.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    h.copy_(h_after.detach())
    c.copy_(c_after.detach())
    return loss.detach()


done = 0
while done < args.steps:
    h.zero_()
    c.zero_()
    for x, y in windows(tokens[:-test_size], STREAMS):
        if done == args.steps:
            break
        loss = step(x, y)
        done += 1

with mica.no_grad():
    streams = min(STREAMS, test_size // (2 * WINDOW))
    state, losses = first_state(streams), []
    for x, y in windows(tokens[-test_size:], streams):
        logits, state = net(x, state)
        losses.append(F.cross_entropy(logits.flatten(0, 1), y.flatten()).item())
bits = sum(losses) / len(losses) / math.log(2)
print(f"{args.steps} steps: {bits:.3f} bits per character on the last 5 % of the text")

with mica.no_grad():
    prompt = text[:20]
    x = mica.tensor(vocabulary.encode(prompt), device=args.device).reshape(-1, 1)
    state = first_state(1)
    print(prompt, end="")
    for _ in range(200):
        logits, state = net(x, state)
        likely, which = (logits[-1, 0] / args.temperature).topk(min(args.top_k, len(vocabulary)))
        x = which[mica.multinomial(likely.softmax(-1), 1)].reshape(1, 1)
        print(vocabulary.decode([int(x.item())]), end="", flush=True)
print()
