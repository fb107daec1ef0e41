# Durations such as 45s, 5m or 1h30m, in seconds.

to_seconds() {
    rest=$1 total=0
    while [ -n "$rest" ]; do
        number=${rest%%[smh]*}
        case ${rest#"$number"} in
            s*) unit=1 ;;
            m*) unit=60 ;;
            h*) unit=3600 ;;
        esac
        total=$((number * unit))
        rest=${rest#"$number"?}
    done
    echo "$total"
}
