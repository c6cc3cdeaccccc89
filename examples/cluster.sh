#!/usr/bin/env bash
# horovodrun with the exit code of the run; horovodrun itself has only the codes 0 and
# 1.
#
#   examples/cluster.sh -np 4 -H node1:2,node2:2 -- \
#     python run_classifier_mgpu.py --output_dir=out ...
#
# Options of horovodrun stand before the two dashes, the command behind them. SIGTERM
# and Ctrl-C are passed on: all processes save, and the code is 75.
# Exit codes: 0 done, that of exit.json in --output_dir if this run wrote one, else
# horovodrun's own; 2 for a mistake here.
set -euo pipefail

mistake() {
  echo "error: $1" >&2
  exit 2
}

options=()
while (($#)) && [[ $1 != -- ]]; do
  options+=("$1")
  shift
done
(($#)) || mistake "no two dashes: cluster.sh OPTIONS_OF_HOROVODRUN -- COMMAND"
((${#options[@]})) || mistake "no -np PROCESSES before the two dashes"
shift
(($#)) || mistake "no command behind the two dashes: python run_classifier_mgpu.py ..."
output_dir=
for word; do
  case $word in --output_dir=*) output_dir=${word#*=} ;; esac
done
[[ $output_dir ]] || mistake "the command has no --output_dir=FOLDER"
bin=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.venv/bin
if ! command -v horovodrun > /dev/null; then
  [[ -x $bin/horovodrun ]] || mistake "no horovodrun: make horovod"
  PATH=$bin:$PATH
fi

# Which exit.json it is: not by its age, since the clocks of machines differ.
identity() { stat -c '%i %y' "$output_dir/exit.json" 2> /dev/null || true; }
before=$(identity)

horovodrun "${options[@]}" "$@" &
child=$!
# To horovodrun both signals are the same, but it ignores SIGINT until it is ready.
trap 'passed=yes; kill -TERM "$child" 2> /dev/null || true' TERM INT
status=1
while true; do
  passed=
  got=0
  wait "$child" || got=$?
  # A signal ends the wait with a code of its own. 127: it was waited for already.
  if [[ $got != 127 ]]; then status=$got; fi
  if [[ ! $passed ]]; then break; fi
done
trap - TERM INT
((status)) || exit 0

end=
if [[ $(identity) != "$before" ]]; then
  end=$(
    python3 - "$output_dir/exit.json" 2> /dev/null << 'END' || true
import json, sys

end = json.load(open(sys.argv[1], encoding="utf-8"))
reason = " ".join(end["reason"].split())
who = "all processes" if end["rank"] is None else f"process {end['rank']}"
print(f"{end['code']}: {who} at step {end['step']}: {reason}")
END
  )
fi
if [[ ! $end ]]; then
  echo "horovodrun ended with $status; the run left no exit.json in $output_dir" >&2
  exit "$status"
fi
echo "exit code $end" >&2
exit "${end%%:*}"
