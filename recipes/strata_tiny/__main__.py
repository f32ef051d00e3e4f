"""The recipe's stages, each a command that goes on where it was left:

    free        WordNet's senses as documents (where the network is)                  free.jsonl.gz
    write       SmolLM2 writes, on a card; one process a card, --shard apart          written-*.npz
    tokenizer   documents, vocabulary, packed ids                                     packed.npz, held_out.npz, ...
    warm        a minute of training on noise: fills the compiler's cache, tells the speed
    train       minutes by the clock, on a card                                       checkpoint.pt, loss.csv
    export      the files                                                             strata-tiny.*.gguf
    evaluate    bits per byte, drafts, samples and their judge                        metrics.json, samples.jsonl
    plot        the loss as a picture                                                 loss.svg
    collect     what is worth keeping, in few files, in --to                          records.tar.gz, ...

`all` is tokenizer to plot. Every line of progress has the seconds since the command began.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from recipes.strata_tiny import stages

BEGAN_S = time.monotonic()


def say(line: str) -> None:
    print(f"[{time.monotonic() - BEGAN_S:6.1f} s] {line}", flush=True)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.strata_tiny", description="Makes strata-tiny.")
    parser.add_argument("stage", choices=[*stages.STAGES, "all"])
    parser.add_argument("--out", type=Path, required=True, help="folder of everything that is made")
    parser.add_argument("--device", default="cuda:0", help="cuda:N or cpu")
    parser.add_argument("--smollm2", type=Path, help="SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--wordnet", type=Path, help="free: folder with data.noun and its like")
    parser.add_argument("--shard", type=int, default=0, help="write: a number of this process's own")
    parser.add_argument("--seconds", type=float, default=170.0, help="write: begin no batch that ends later")
    parser.add_argument("--rows", type=int, default=4096, help="write: conversations at once")
    parser.add_argument("--row-tokens", type=int, default=640, help="write: tokens of a conversation")
    parser.add_argument("--batches", type=int, default=999, help="write: at most so many")
    parser.add_argument("--vocab", type=int, default=4096, help="tokenizer: tokens of the vocabulary")
    parser.add_argument("--minutes", type=float, default=7.5, help="train: of wall time, compiling included")
    parser.add_argument("--train-rows", type=int, default=64, help="train: rows of a step")
    parser.add_argument("--train-tokens", type=int, default=2048, help="train: tokens of a row")
    parser.add_argument("--steps", type=int, help="train: end there, whatever the clock says")
    parser.add_argument("--no-compile", action="store_true", help="train: without torch.compile")
    parser.add_argument("--optimizer", choices=("muon", "adamw"), default="muon")
    parser.add_argument("--prompts", type=int, default=128, help="evaluate: held-out prompts that are answered")
    parser.add_argument("--reply-tokens", type=int, default=64, help="evaluate: tokens of an answer")
    parser.add_argument("--to", type=Path, help="collect: folder for the few files that are kept")
    parser.add_argument("--toy", action="store_true", help="train: the sizes of the tests")
    options = parser.parse_args(words)
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = ("tokenizer", "train", "export", "evaluate", "plot") if options.stage == "all" else (options.stage,)
    for name in chosen:
        say(f"stage {name}")
        stages.STAGES[name](options, say, BEGAN_S)
    say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
