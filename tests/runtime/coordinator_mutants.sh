#!/bin/sh
# Whether coordinator_random_test would notice a coordinator that is wrong: one fault at a time is put
# into a copy of the coordinators, and the test, built against it, must fail. By hand, as it compiles
# each copy: coordinator_mutants.sh BUILD [--seed=N]. Prints what the test says of each fault, and at
# the end how many it noticed; exit 1 if one was not.
set -eu
build=${1:?usage: coordinator_mutants.sh BUILD [--seed=N]}
seed=${2:---seed=42}
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cc=${CC:-cc}
rooms="-std=gnu11 -O1 -I$dir -I$root -I$build/generated"
missed=0
all=0

# FILE|WHAT IS WRONG|SED
faults() {
    cat << 'LIST'
coordinator|a message of an older incarnation is taken|s/|| event->incarnation != m->incarnation)/)/
coordinator|a message of an episode that is over is taken|s/ && event->episode == m->episode;/;/
coordinator|who comes back keeps its incarnation|s/^    m->incarnation++;/    m->incarnation += m->incarnation == 0;/
coordinator|who is lost stays in the queue of those that wait|s/^        forget(c, event->member);/        (void)forget;/
coordinator|a checkpoint goes on being written by one who is lost|s/^        c->saving = 0;$/        (void)0;/
coordinator|who joins while present is not lost first|s/^        lose(c, event);$/        (void)lose;/
coordinator|a member in the middle is not told to finish|s/^        tutti_coordinate_act(c, TUTTI_ACTION_FINISH, i);/        if (i != 1) &/
coordinator|any checkpoint reported is taken for the one asked for|s/ || event->episode != c->saving_episode/ /
coordinate_async|a gradient one older than allowed is applied|s/staleness > c->params.staleness_max)/staleness > c->params.staleness_max + 1)/
coordinate_async|a gradient as old as allowed is dropped|s/staleness > c->params.staleness_max) {/staleness >= c->params.staleness_max) {/
coordinate_async|a pull is not noted|s/^        m->step = c->step;/        (void)m;/
coordinate_async|the slack is one more|s/ + c->params.slack - 1/ + c->params.slack/
coordinate_async|the slack is one less|s/ + c->params.slack - 1/ + c->params.slack - (c->params.slack > 1 ? 2 : 1)/
coordinate_async|who comes late is counted from 0|s/least == UINT64_MAX ? 0 : least/0/
coordinate_async|a worker that was lost is waited for|s/coordinate_is_present(c, i) && c->member/c->member/
coordinate_async|the step is counted for a dropped gradient|s/^        c->stats.dropped_stale++;/        c->stats.dropped_stale++, c->step++;/
coordinate_async|the step is not counted|s/^    c->step++;/    c->step += c->stats.applied % 7 != 3;/
coordinate_async|nobody is started after a loss|s/^    else$/    else if (event->kind != TUTTI_EVENT_LOST)/
coordinate_async|the histogram is of the bin beside|s/staleness\[bin\]++/staleness[bin > 0 ? bin - 1 : 0]++/
coordinate_async|the sum of staleness is of the bins|s/staleness_sum += staleness/staleness_sum += staleness > 2 ? 2 : staleness/
coordinate_sync|a stale gradient is taken|s/m->step < c->step)/m->step + 1 < c->step)/
coordinate_sync|a gradient of this step is dropped|s/m->step < c->step)/m->step < c->step || c->accumulated == 2)/
coordinate_sync|a step takes one more|s/accumulated == c->params.aggregate)/accumulated == c->params.aggregate + 1)/
coordinate_sync|a step takes one less|s/accumulated == c->params.aggregate)/accumulated + (c->params.aggregate > 2) == c->params.aggregate)/
coordinate_sync|what was gathered is kept for the next step|s/^    c->accumulated = 0;/    c->accumulated = c->step % 5 == 4;/
coordinate_sync|a token too few a step|s/more(c->params.member_count, c->params.aggregate))/c->params.aggregate - (c->params.aggregate > 1))/
coordinate_sync|a token too many a step|s/more(c->params.member_count, c->params.aggregate))/more(c->params.member_count, c->params.aggregate) + 1)/
coordinate_sync|tokens are lost|s/^    \*ret_step = c->token_step\[0\];/    if (c->token_kinds > 1) c->token_count[0] = 1; &/
coordinate_sync|fresh tokens keep their step|s/fresh ? c->step : step/step/
coordinate_sync|those who are late are not stopped|s/^            tutti_coordinate_abort(c, i);/            c->member[i].state = TUTTI_MEMBER_WAITING;/
coordinate_sync|who joins waits for a token|s/^            tutti_coordinate_start(c, TUTTI_ACTION_START, event->member, c->step);/            tutti_coordinate_wait(c, event->member);/
coordinate_sync|who gave a gradient is started at once|s/^    if (c->params.late == TUTTI_LATE_ABORTED \&\& c/    if (c->params.late == TUTTI_LATE_ABORTED || c/
coordinate_queue|the closure of one who is lost is lost|s/^        push(c, m->step);/        (void)m;/
coordinate_queue|the closure of one who is lost goes back twice|s/^        push(c, m->step);/        push(c, m->step), push(c, m->step), c->closure_limit += 0;/
coordinate_queue|the queue holds one more than its bound|s/closure_count >= c->params.queue_bound)/closure_count > c->params.queue_bound)/
coordinate_queue|an error is never told|s/c->failed || c->closure/c->closure/
coordinate_queue|an error leaves the queue as it is|s/^    c->closure_count = 0;/    (void)0;/
coordinate_queue|an error lets others run on|s/^            tutti_coordinate_abort(c, i);/            continue;/
coordinate_queue|an error is told for ever|s/^        c->failed = false;.*/        (void)0;/
coordinate_queue|who comes back is not waited for|s/c->params.wait_for_all && c->missing > 0/false/
coordinate_queue|all are waited for where nobody asked|s/c->params.wait_for_all && c->missing > 0/c->missing > 0/
coordinate_queue|who has done its closure gets no other|s/^        tutti_coordinate_wait(c, event->member);/        (void)0;/
coordinate_queue|the last of the ring is passed over|s/(c->closure_first + 1) % c->closure_limit/(c->closure_first + 1) % (c->closure_limit - 1)/
coordinate_queue|closures run in the reverse order|s/uint64_t closure = c->closure\[c->closure_first\]/uint64_t closure = c->closure[(c->closure_first + c->closure_count - 1) % c->closure_limit]/
coordinate_supervisor|workers begin before the model is set up|s/^    else if (c->phase == RUNNING && member/    else if (member/
coordinate_supervisor|a lost server stops nobody|s/return member == CHIEF || member >= worker_count(c);/return member == CHIEF;/
coordinate_supervisor|steps since the checkpoint stay counted|s/^    c->step = c->saved_step;$/    (void)0;/
coordinate_supervisor|the workers go on without a chief|s/^        tutti_coordinate_abort(c, i);/        (void)i;/
coordinate_supervisor|a checkpoint of before goes on|s/^    c->saving = 0;/    (void)0;/
coordinate_supervisor|it ends without the last checkpoint|s/^    if (c->saved_step >= c->step) {/    {/
coordinate_supervisor|the model is set up anew from step 0|s/c->saved_step > 0 ? TUTTI_ACTION_RESTORE : TUTTI_ACTION_INITIALISE,/TUTTI_ACTION_INITIALISE,/
coordinate_supervisor|progress goes back|s/event->number > c->step)/event->number != c->step)/
coordinate_supervisor|who joins late is never started|s/c->phase == RUNNING && member < worker_count/c->phase == RUNNING \&\& member == CHIEF \&\& member < worker_count/
coordinate_supervisor|no checkpoint while it runs|s/^        if (c->phase == RUNNING)$/        if (false)/
coordinate_elastic|a step that was broken off counts|s/^    c->group_size = 0;$/    c->step += c->group_done > 1, c->group_size = 0;/
coordinate_elastic|the weights are not set back|s/^            tutti_coordinate_act(c, TUTTI_ACTION_RESTORE, i);/            (void)0;/
coordinate_elastic|others go on with the step|s/^        tutti_coordinate_abort(c, i);/        c->member[i].state = TUTTI_MEMBER_WAITING;/
coordinate_elastic|who comes has no copy|s/!c->member\[i\].holds && i != source)/!c->member[i].holds \&\& i != source \&\& i != 2)/
coordinate_elastic|who is taken in is taken for having weights|s/^        if (c->member\[i\].holds)$/        if (c->member[i].holds || i == 1)/
coordinate_elastic|a step ends without the last|s/++c->group_done == c->group_size)/++c->group_done + (c->group_size > 2) == c->group_size)/
coordinate_elastic|who would leave is kept|s/^        c->member\[member\].flag = true;/        (void)0;/
coordinate_elastic|who would leave goes in the middle of a step|s/c->group_size > 0 && is_in_group(c, member))/c->group_size > 5 \&\& is_in_group(c, member))/
coordinate_elastic|fewer than the least|s/count < c->params.least_members/count + 1 < c->params.least_members/
coordinate_elastic|the first group is of whoever is there|s/c->group == 0 && count < c->params.first_members/false/
coordinate_elastic|it goes on from step 0 after the last was lost|s/^    c->step = c->saved_step;/    c->step = 0;/
coordinate_elastic|a group keeps its number|s/^    c->group += c->changed;/    c->group += c->group == 0;/
coordinate_elastic|no checkpoint|s/^        c->save_due = true;/        (void)0;/
LIST
}

try() { # FILE WHAT SED
    all=$((all + 1))
    sed "$3" "$root/runtime/workload/$1.c" > "$dir/$1.c"
    if cmp -s "$dir/$1.c" "$root/runtime/workload/$1.c"; then
        echo "NOT PUT IN  $1: $2"
        missed=$((missed + 1))
        return
    fi
    # shellcheck disable=SC2086 # several words
    $cc $rooms -w -c "$dir/$1.c" -o "$dir/fault.o"
    # shellcheck disable=SC2086
    $cc $rooms "$dir/test.o" "$dir/fault.o" "$build/libtutti.a" -o "$dir/test" -lm -lpthread -ldl
    case $1 in
    coordinator) kind=hold_in_any_order ;;
    coordinate_queue) kind=queues_hold ;;
    *) kind=${1#coordinate_} ;;
    esac
    if timeout 60 "$dir/test" "$seed" "$kind" > "$dir/out" 2>&1; then
        echo "NOT NOTICED $1: $2"
        missed=$((missed + 1))
    else
        said=$(grep -m 1 -o 'seed=.*\|Assertion.*' "$dir/out" || tail -n 1 "$dir/out")
        echo "noticed     $1: $2: $said"
    fi
}

# shellcheck disable=SC2086
$cc $rooms -w -c "$root/tests/runtime/coordinator_random_test.c" -o "$dir/test.o"
faults > "$dir/list"
while IFS='|' read -r file what expression; do
    try "$file" "$what" "$expression"
done < "$dir/list"
echo "$((all - missed)) of $all faults noticed"
[ "$missed" -eq 0 ]
