. ./durations.sh

failures=0

check() {
    got=$(to_seconds "$1")
    if [ "$got" = "$2" ]; then
        echo "ok    $1 is $2"
    else
        echo "FAIL  $1 is $2, not $got"
        failures=$((failures + 1))
    fi
}

check 45s 45
check 5m 300
check 1h30m 5400

echo "$failures failed"
[ "$failures" -eq 0 ]
