# Runs stages in two lanes, counts what they have checked, and shows what they took. To be sourced by scripts/test, with
# the repository's root as working directory.
#
# Stages run one after the other, in the order of the plan. Those that are marked `beside` form a second lane, also one
# at a time, at the priority given after the mark (the lowest by default), so they use only idle processor time. One of
# them begins when all unmarked stages above it have ended.
#
# Each stage is a process of its own in a session of its own (scripts/test --stage NAME PRIORITY): a signal reaches all
# that it has started, and where the scheduler has a group for each session, priorities are those of the groups.

LOGS=$PWD/.cache/logs
SHOWN_LOGS=.cache/logs
# Budgets are for this number of processors.
PROCESSORS=2
# The most lines of a failed stage's output that are shown again at the end.
MOST_AT_END=20

declare -A outcome took processor group budget lane priority
# The stages that run: their names by process.
declare -A running
passed=0 failed=0 skipped=0
failures=() skips=() left_out=() has_run=()

# --- the plan

# Appends a plan's stages to an array, and notes their groups, budgets, lanes and priorities: a niceness, or `idle`.
read_plan() {
    local -n names=$1
    local stage its_group seconds mark its_priority
    while read -r stage its_group seconds mark its_priority; do
        [ -n "$stage" ] || continue
        names+=("$stage") group[$stage]=$its_group budget[$stage]=$seconds lane[$stage]=${mark:-first}
        priority[$stage]=${mark:+${its_priority:-idle}}
    done <<<"$2"
}

# Has stages wait for each other in any case.
one_lane() {
    local stage
    for stage in "$@"; do
        lane[$stage]=first priority[$stage]=
    done
}

# Where a stage is among those that were asked for.
place_of() {
    local index
    for index in "${!chosen[@]}"; do
        [ "${chosen[index]}" != "$1" ] || echo "$index"
    done
}

# --- the two lanes

# Runs stages, given by name, and notes what becomes of them.
run_stages() {
    chosen=("$@")
    local first=() beside=() stage process code
    for stage in "${chosen[@]}"; do
        if [ "${lane[$stage]}" = beside ]; then beside+=("$stage"); else first+=("$stage"); fi
    done
    trap 'stop INT 130' INT
    trap 'stop TERM 143' TERM
    trap 'stop HUP 129' HUP
    while :; do
        if [ ${#first[@]} -gt 0 ] && [ -z "$(running_in first)" ]; then
            start "${first[0]}"
            first=("${first[@]:1}")
        fi
        if [ ${#beside[@]} -gt 0 ] && [ -z "$(running_in beside)" ] &&
            is_open "${beside[0]}" "$(running_in first)" "${first[0]:-}"; then
            start "${beside[0]}"
            beside=("${beside[@]:1}")
        fi
        [ ${#running[@]} -gt 0 ] || break
        show_running
        await_end
        wait "$process"
        code=$?
        stage=${running[$process]}
        unset "running[$process]"
        end_stage "$stage" "$code"
        [ ${#first[@]} -gt 0 ] || [ -n "$(running_in first)" ] || lift_all
    done
    trap - INT TERM HUP
    has_run=("${chosen[@]}")
}

# Waits until a process of a stage has ended, and names it in `process`. (`wait -n` does not tell of one that ended
# before another was started.)
await_end() {
    while :; do
        for process in "${!running[@]}"; do
            kill -0 "$process" 2>/dev/null || return 0
        done
        sleep 0.1
    done
}

# The stage of a lane that runs, if one does.
running_in() {
    local process
    for process in "${!running[@]}"; do
        [ "${lane[${running[$process]}]}" != "$1" ] || echo "${running[$process]}"
    done
}

# Whether a stage may begin that runs beside others. It is given what runs in the first lane and what comes next there,
# each of which may be empty.
is_open() {
    local stage=$1 other
    shift
    for other in "$@"; do
        [ -z "$other" ] || [ "$(place_of "$other")" -gt "$(place_of "$stage")" ] || return
    done
}

# Starts a stage. Bash has commands that it starts with & ignore Ctrl-C; a stage must not.
start() {
    rm -f "$LOGS/$1.time"
    BUILT=${outcome[$BUILT_BY]:-}
    setsid env --default-signal=INT,QUIT scripts/test --stage "$1" "${priority[$1]}" </dev/null &
    running[$!]=$1
}

# Runs a stage in this process, with a priority; its output and its times go to files.
stage_alone() {
    local name=$1
    [ -z "$2" ] || take_priority "$2"
    TIMEFORMAT='%R %U %S'
    # Not in a condition, where `set -e` would do nothing.
    { time { (set -e; "stage_$name") >"$LOGS/$name.log" 2>&1; }; } 2>"$LOGS/$name.time"
}

# That of the session, this process and its children: a niceness, or `idle` to run when no other has work for a
# processor, or nearly so where the system allows less.
take_priority() {
    local niceness=${1/idle/19}
    echo "$niceness" >/proc/self/autogroup
    renice -n "$niceness" -p $$
    [ "$1" != idle ] || chrt --idle -p 0 $$
} >/dev/null 2>&1

# When nothing of the first lane is left, the others need not make room for it: those to come, and what runs, as far as
# the system allows.
lift_all() {
    local stage process
    for stage in "${chosen[@]}"; do
        priority[$stage]=
    done
    for process in "${!running[@]}"; do
        echo 0 >"/proc/$process/autogroup"
        for process in $(ps -s "$process" -o pid=); do
            chrt --other -p 0 "$process"
            renice -n 0 -p "$process"
        done
    done
} >/dev/null 2>&1

# Ctrl-C and the like go on to the stages, which end what they have started; a second one is not waited for.
stop() {
    trap kill_all INT TERM HUP
    local process
    for process in "${!running[@]}"; do
        # One that has just been started has no group yet.
        until kill "-$1" -- "-$process" 2>/dev/null || ! kill -0 "$process" 2>/dev/null; do sleep 0.05; done
    done
    wait
    hide_running
    echo "interrupted in: ${running[*]}; the output so far is in $SHOWN_LOGS" >&2
    exit "$2"
}

kill_all() {
    local process
    for process in "${!running[@]}"; do
        kill -KILL -- "-$process"
    done
    exit 137
}

# On a terminal, says in the last line what runs.
show_running() {
    [ ! -t 1 ] || printf '\r\033[K%s ...' "${running[*]}"
}

hide_running() {
    [ ! -t 1 ] || printf '\r\033[K'
}

# --- what becomes of a stage

end_stage() {
    local name=$1 code=$2 log=$LOGS/$1.log counts
    case $code in
        0) outcome[$name]=passed ;;
        "$CANNOT_BE_HAD") outcome[$name]=skipped ;;
        *) outcome[$name]=failed ;;
    esac
    read -r -a counts < <(count "$name" "$log" "$code")
    passed=$((passed + counts[0])) failed=$((failed + counts[1])) skipped=$((skipped + counts[2]))
    read -r "took[$name]" "processor[$name]" < <(times_of "$LOGS/$name.time" "${lane[$name]}")
    hide_running
    printf '%-16s%-8s%5d s of %5d s%s%s%s\n' "$name" "${outcome[$name]}" "${took[$name]}" "${budget[$name]}" \
        "$(beside_others "$name")" "$(overrun "${took[$name]}" "${budget[$name]}")" "$(describe "${counts[@]}")"
    note_skips "$name" "$log" "$code"
    if [ "${outcome[$name]}" = failed ]; then
        failures+=("$name: see $SHOWN_LOGS/$name.log")
        failures+=("$(show_failure "$name" "$log" | tail -n "$MOST_AT_END" | sed 's/^/    | /')")
        show_failure "$name" "$log" | sed 's/^/    | /'
    fi
}

# What a stage took, and its processor time, in seconds, from a file with what bash's `time` says (real, user, system).
# One that ran beside others took what it would have taken alone: its processor time, divided by the processors.
times_of() {
    awk -v lane="$2" -v processors="$PROCESSORS" '
        NF == 3 { real = $1; busy = $2 + $3 }
        END { printf "%.0f %.0f\n", lane == "beside" ? busy / processors : real, busy }' < <(cat "$1" 2>/dev/null)
}

# What a person needs first: what failed tests have said, the failed cases of a suite, or else the end of the log.
show_failure() {
    local name=$1 log=$2 text
    case $name in
        tests* | doctests) text=$(failed_tests "$log") ;;
        figures | siw* | tshark* | mpi | mpi_* | verbs*) text=$(grep -a '^failed: ' "$log" | cut -c 1-500) ;;
    esac
    if [ -n "${text:-}" ]; then echo "$text"; else tail -n 40 "$log"; fi
}

# What failed tests have said, and which programs have ended as no test does.
failed_tests() {
    awk '
        NR == FNR { if (/^test .* \.\.\. FAILED$/) failed[$2] = 1; next }
        /^---- .* stdout ----$/ { shown = $2 in failed }
        /^(successes|failures):$/ || /^stack backtrace:/ { shown = 0 }
        shown || /^ended badly: /
    ' "$1" "$1" | cut -c 1-500 | head -n 60
}

# Prints how many checks of a stage have passed, failed and been skipped. A stage that does not count is one check.
count() {
    local name=$1 log=$2 code=$3 numbers
    case $name in
        tests* | doctests) numbers=$(count_cargo "$log") ;;
        figures | siw* | tshark* | mpi* | verbs*) numbers=$(count_suite "$log") ;;
        *) numbers="$((code == 0)) 0 $(grep -c '^skipped: ' "$log")" ;;
    esac
    set -- $numbers
    local good=${1:-0} bad=${2:-0} left=${3:-0}
    # The exit code decides whether anything failed. One that tells of a failure may come without a count: the stage
    # ended before it began to count, or in the middle of it.
    if [ "$code" = 0 ]; then
        bad=0
    elif [ "$code" != "$CANNOT_BE_HAD" ] && [ "$bad" = 0 ]; then
        bad=1
    fi
    [ "$code" != "$CANNOT_BE_HAD" ] || [ "$left" -gt 0 ] || left=1
    echo "$good $bad $left"
}

# Cargo's sums. A test that has printed why it was skipped counts as skipped, although cargo says that it passed.
#
# libtest has no report for machines (its JSON is unstable), so only whole lines count that say that nothing was
# filtered out: a program that a test starts from itself runs one of its tests, and what it prints is not the runner's.
count_cargo() {
    grep -a -E "^test result: (ok|FAILED)\. $SUMS 0 filtered out; finished in [0-9.]+s\$" "$1" | sed 's/[^0-9]/ /g' |
        awk -v left="$(skipped_tests "$1" | cut -d: -f1 | sort -u | wc -l)" '
        { good += $1; bad += $2; ignored += $3 }
        END { print good - (left - ignored), bad + 0, left }'
}
SUMS='[0-9]+ passed; [0-9]+ failed; [0-9]+ ignored; [0-9]+ measured;'

# The line that a suite ends with: "N passed, N failed, N skipped".
count_suite() {
    grep -a -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped' "$1" | tail -n 1 | sed 's/[^0-9]/ /g' |
        awk '{ print $1, $2, $3 }'
}

# Tests that did not run, with the reason: "name: reason".
skipped_tests() {
    awk '
        /^---- .* stdout ----$/ { name = $2 }
        /^skipped: / { print name ": " substr($0, 10) }
        /^test .* \.\.\. ignored/ {
            name = $2; reason = $0; sub(/^.*ignored,? ?/, "", reason); print name ": ignored " reason
        }
    ' "$1"
}

note_skips() {
    local name=$1 log=$2 code=$3 line lines
    if [ "$code" = "$CANNOT_BE_HAD" ]; then
        line=$(grep 'cannot be had here: ' "$log" | tail -n 1)
        skips+=("$name: ${line##*cannot be had here: }")
        return
    fi
    case $name in
        tests* | doctests) mapfile -t lines < <(skipped_tests "$log") ;;
        *) mapfile -t lines < <(sed -n 's/^skipped: //p' "$log") ;;
    esac
    for line in "${lines[@]}"; do
        skips+=("$name: $line")
    done
    mapfile -t lines < <(sed -n 's/^left out: //p' "$log")
    for line in "${lines[@]}"; do
        # The names are in the log.
        left_out+=("$name: $(cut -c 1-120 <<<"$line")")
    done
}

# --- the summary

describe() {
    [ "$1" -gt 1 ] || [ "$2" -gt 1 ] || [ "$3" -gt 0 ] || return
    printf '   %s passed, %s failed, %s skipped' "$@"
}

# Says by how much a time is over its budget, if it is.
overrun() {
    [ "$1" -le "$2" ] || printf '   over by %d s' $(($1 - $2))
}

# Marks a stage that runs beside others.
beside_others() {
    [ "${lane[$1]}" != beside ] || printf ' beside'
}

# What each stage has taken, beside its budget, below the sums of its group: of the stages that have run. The last line
# has what all together took, and the budgets of those that wait for each other.
show_budgets() {
    local stage name groups=() allowed=0 busy=0
    printf '%-16s %8s  %8s %11s\n' "" took budget processors
    for stage in "${has_run[@]}"; do
        [[ " ${groups[*]} " = *" ${group[$stage]} "* ]] || groups+=("${group[$stage]}")
        [ "${lane[$stage]}" = beside ] || allowed=$((allowed + budget[$stage]))
        busy=$((busy + processor[$stage]))
    done
    for name in "${groups[@]}"; do
        show_group "$name"
    done
    show_line all "$1" "$allowed" "$busy"
}

show_group() {
    local stage stages=() sum=0 allowed=0 busy=0
    for stage in "${has_run[@]}"; do
        [ "${group[$stage]}" = "$1" ] || continue
        stages+=("$stage")
        sum=$((sum + took[$stage])) allowed=$((allowed + budget[$stage])) busy=$((busy + processor[$stage]))
    done
    show_line "$1" "$sum" "$allowed" "$busy"
    for stage in "${stages[@]}"; do
        show_line "  $stage" "${took[$stage]}" "${budget[$stage]}" "${processor[$stage]}" "$(beside_others "$stage")"
    done
}

# A line of the table: a title, what it took, its budget, its processor time, and a mark.
show_line() {
    printf '%-16s %6d s  %6d s    %6d s%s%s\n' "$1" "$2" "$3" "$4" "${5:-}" "$(overrun "$2" "$3")"
}

summary() {
    local stage
    echo
    show_budgets "$SECONDS"
    [ -z "$(for stage in "${has_run[@]}"; do beside_others "$stage"; done)" ] ||
        echo "beside: at a low priority while others run; took is its processor time on $PROCESSORS processors"
    echo
    [ ${#skips[@]} = 0 ] || { echo "skipped:"; printf '  %s\n' "${skips[@]}"; echo; }
    [ ${#left_out[@]} = 0 ] || { echo "left out:"; printf '  %s\n' "${left_out[@]}"; echo; }
    [ ${#failures[@]} = 0 ] || { echo "failed:"; printf '  %s\n' "${failures[@]}"; echo; }
    echo "$((SECONDS / 60)) min $((SECONDS % 60)) s; the full output is in $SHOWN_LOGS"
    echo "$passed passed, $failed failed, $skipped skipped"
}
