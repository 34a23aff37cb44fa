#!/usr/bin/env bash
# `make demo`: both parties' jobs on the bundled digits. Everything it writes is in ./demo.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f demo/canaries.npz ] && [ -f demo/test-labels.parquet ] || rm -rf demo   # of an earlier version: its labels are released already
mkdir -p demo
export LABELDP_LEDGER=demo/digits.ledger   # a ledger of its own: yours is not touched
say() { printf '\n$ %s\n' "$*"; "$@"; }

[ -f demo/planted.parquet ] || python examples/digits.py demo
printf '\n── the label owner ──\n'
say labeldp plan --classes 10 --epsilon 2 --html demo/plan.html
# Canaries are planted once, before the first release: planted again, they would be other labels of the same people.
[ -f demo/canaries.npz ] || say labeldp canaries plant demo/digits.parquet --label digit --id uid --classes 10 --count 100 --candidates 10 --out demo/planted.parquet --secret demo/canaries.npz
say labeldp release demo/planted.parquet --label digit --id uid --classes 10 --epsilon 2 --shuffle --out demo/released.parquet
say labeldp ledger show
printf '\n── the feature owner, who has the release and no label ──\n'
say labeldp inspect demo/released.parquet
rm -rf demo/run   # of an earlier demo, perhaps an earlier version's
# Accuracy twice: by the released labels, each judging a model that has not seen it, and by the test rows, whose labels are public.
say labeldp train --release demo/released.parquet --features demo/features.parquet --id uid --model mlp --folds 5 --canary-share 0.0696 --test-features demo/test-features.parquet --test-labels demo/test-labels.parquet --test-labels-are-public --out demo/run 2>/dev/null
say labeldp predict demo/run --features demo/features.parquet --id uid --out demo/scores.parquet
printf '\n── the label owner again, who measures what the model and the release give away ──\n'
say labeldp audit demo/scores.parquet --canaries demo/canaries.npz --release demo/released.parquet --out demo/audit
printf '\n── and how good it is on other people, by one noisy table of counts ──\n'
say labeldp predict demo/run --features demo/test-features.parquet --id uid --out demo/test-scores.parquet
say labeldp score demo/test-scores.parquet --labels demo/test-labels.parquet --label digit --id uid --classes 10 --epsilon 1 --recipient "the feature owner" --purpose "evaluation" --out demo/score.parquet
say labeldp report demo/run demo/audit demo/score.parquet --ledger demo/digits.ledger --out demo/report.html
printf '\nThe release, safe to hand over, is demo/released.parquet. Open the report: %s\n(and what other settings would carry: %s)\n' "$PWD/demo/report.html" "$PWD/demo/plan.html"
