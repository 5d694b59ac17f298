#!/usr/bin/env bash
# The main job, end to end, on a fresh embedded lake: what a newcomer would type, and what it prints.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
demo=$PWD/.demo
rm -rf "$demo"
mkdir -p "$demo"
cp -r examples/sales examples/orders "$demo"
cd "$demo"

run() {
    local word line=
    for word in "$@"; do
        case "$word" in *[\ \{]*) line+=" \"$word\"" ;; *) line+=" $word" ;; esac
    done
    printf '\n$%s\n' "$line"
    "$@" 2>&1
}

run python sales/generate.py landing --later later
run neve init
run neve table create sales/configs/sales_table.yaml
run neve table ingest sales landing --date-from-name "sales_{date}.csv"
run neve table ingest sales landing/sales_2024-01-01.csv --date 2024-01-01
run neve table status sales
run neve table query sales "SELECT date, count(*) AS sales, round(sum(quantity * price), 2) AS revenue FROM sales GROUP BY date ORDER BY date" --limit 3
run neve compact sales --period 2024-01
run neve table status sales
run neve table ingest sales later --date-from-name "sales_{date}.csv" --dry-run
run neve table ingest sales later --date-from-name "sales_{date}.csv"
run neve table verify sales -o json
run neve table tag sales january
run neve sql --write "DELETE FROM sales WHERE region = 'WEST'"
run neve table history sales
run neve sql --as-of january "SELECT count(*) AS then FROM sales"
run neve table rollback sales --to january --yes
run neve table rename sales shop.sales
run neve table delete shop.sales --yes
run neve table undelete shop.sales
run neve table create sales/configs/sales_folder.yaml
run neve table ingest sales_folder landing --date-from-name "sales_{date}.csv"
run neve compact sales_folder --period 2024-01 --delete-source
run neve sql "SELECT region, count(*) AS sales FROM sales_folder GROUP BY region ORDER BY region"
run find data -type f
run python orders/generate.py new_orders
run neve sql --write -f new_orders/load.sql
run neve dynamic create -f orders/dynamic_tables.sql
run neve dynamic explain shop.top_products
run neve sql --write -f new_orders/next_day.sql
run neve dynamic refresh
run neve dynamic list
run neve runs list
printf '\nThe lake is in .demo/: cd .demo and go on.\n'
