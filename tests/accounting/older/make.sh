# Run with labeldp of commit 2199fd1 on the path: `bash make.sh` in this folder.
export LABELDP_LEDGER=$PWD/labels.ledger
for name in march april padded; do
    case $name in march) ids="1 2 3 4 5" ;; april) ids="1 2 3 4 5 6" ;; padded) ids="00041 00042 0043.0 x" ;; esac
    { echo "id,y"; for id in $ids; do echo "$id,$((${#id} % 2))"; done; } > /tmp/$name.csv
    labeldp release /tmp/$name.csv --label y --id id --classes 2 --epsilon 1 --budget 1 --out /tmp/$name.parquet
    rm /tmp/$name.csv /tmp/$name.parquet
done
rm -f labels.ledger.releases/*.lock labels.ledger.releases/*.unfinished
