#!/usr/bin/env bash
# Starts Weft for the later steps of a GitHub job, for action.yml: a daemon that stays, a device, a fabric, and the
# variables that make programs use them. $WEFT is the command.
set -euo pipefail

refuse() {
    echo "::error::Weft: $*"
    exit 1
}

interface=${INPUT_INTERFACE:-}
if [[ -z $interface ]]; then
    interface=$(ip route show default 2> /dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p' | head -n 1)
fi
interface=${interface:-lo}

# The steps are separate processes: without --idle-exit 0 a pause between them would end the daemon, and the device.
if ! "$WEFT" status > /dev/null 2>&1; then
    nohup setsid "$WEFT" daemon --idle-exit 0 > "${RUNNER_TEMP:-/tmp}/weft-daemon.log" 2>&1 < /dev/null &
    for _ in $(seq 100); do
        "$WEFT" status > /dev/null 2>&1 && break
        sleep 0.05
    done
fi

device=${INPUT_DEVICE_NAME:-}
if [[ -n $device ]]; then
    "$WEFT" link add "$device" type rxe netdev "$interface" || refuse "no device $device on interface $interface"
else
    device=$("$WEFT" link | sed -n "s|^link \([^/]*\)/1 .* netdev $interface *\$|\1|p" | head -n 1)
    [[ -n $device ]] || refuse "interface $interface has no address, so it has no device"
fi

if [[ -n ${INPUT_FABRIC:-} ]]; then
    read -r -a options <<< "$INPUT_FABRIC"
    "$WEFT" up "${options[@]}" || refuse "no fabric: weft up $INPUT_FABRIC"
fi

# Checked here: with a typing error every later program would fail to open its device.
if [[ -n ${INPUT_FAULTS:-} ]]; then
    "$WEFT" run --quiet --fault "$INPUT_FAULTS" -- true || refuse "faults: $INPUT_FAULTS"
    printf 'WEFT_FAULT=%s\n' "$INPUT_FAULTS" >> "$GITHUB_ENV"
fi
"$WEFT" env --github
printf 'interface=%s\ndevice-name=%s\n' "$interface" "$device" >> "$GITHUB_OUTPUT"

"$WEFT" doctor || refuse "it does not work on this runner; the lines above say why"
