#!/usr/bin/env bash
# `make demo`: both parties' jobs on the bundled digits. Everything it writes is in ./demo.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p demo
export LABELDP_LEDGER=demo/digits.ledger   # a ledger of its own: yours is not touched
say() { printf '\n$ %s\n' "$*"; "$@"; }

python examples/digits.py demo
printf '\n── the label owner ──\n'
say labeldp plan --classes 10 --epsilon 2
say labeldp release demo/digits.parquet --label digit --id uid --classes 10 --epsilon 2 --shuffle --out demo/released.parquet
say labeldp ledger show
printf '\n── the feature owner, who has the release and no label ──\n'
say labeldp inspect demo/released.parquet
rm -rf demo/run   # of an earlier demo, perhaps an earlier version's
say labeldp train --release demo/released.parquet --features demo/features.parquet --id uid --model mlp --out demo/run 2>/dev/null
say labeldp predict demo/run --features demo/features.parquet --id uid --out demo/scores.parquet
printf '\nThe release, safe to hand over, is demo/released.parquet; the trained model and its summary are in demo/run.\n'
