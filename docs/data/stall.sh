#!/bin/sh
# A copy beside a database, for the first screen of the README. Run it on a lab device:
#   floodwall lab run hdd-7200 --fs ext4 --mount /srv -- sh "$PWD/docs/data/stall.sh"
set -u
floodwall=${FLOODWALL:-floodwall}
export COLUMNS=80
truncate -s 8G movie
sqlite3 shop.db 'create table sold(item)'
yes 'insert into sold values (1);' | sqlite3 shop.db &
shop=$!
sleep 3
# The source has no blocks, so that it is read from no disk.
cp --sparse=never movie copy &
copy=$!
sleep 12
"$floodwall" why .
"$floodwall" fix . --yes --for 30s
kill "$copy" "$shop"
wait
# A kept change would hold the device.
"$floodwall" rollback
