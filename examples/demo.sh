#!/usr/bin/env bash
# `make demo`: the label owner's job on the bundled digits. Everything it writes is in ./demo.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p demo
export LABELDP_LEDGER=demo/digits.ledger   # a ledger of its own: yours is not touched
say() { printf '\n$ %s\n' "$*"; "$@"; }

python examples/digits.py demo/digits.parquet
say labeldp plan --classes 10 --epsilon 2
say labeldp release demo/digits.parquet --label digit --id uid --classes 10 --epsilon 2 --shuffle --out demo/released.parquet
say labeldp inspect demo/released.parquet
say labeldp ledger show
say labeldp ledger verify --releases demo/released.parquet
printf '\nThe release, safe to hand over, is demo/released.parquet; the certificate is the line above that says so.\n'
