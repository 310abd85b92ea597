/* A long run event by event: training up to the next interruption or host that comes back, then
 * recovery. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/long_run/run.h"

/* Times in nanoseconds: 292 years. */
static const int64_t FOREVER_NS = INT64_MAX / 4;

/* A training that takes so many times as long as without interruptions is given up. */
enum { TOO_SLOW = 1000 };

struct play {
    struct tutti_run_times t;
    struct tutti_random random;
    int64_t now_ns;
    int64_t failure_ns;  /* the next, */
    uint32_t cause;      /* and why */
    int64_t end_ns;      /* of wall_s */
    int64_t goal_ns;     /* work_s */
    int64_t patience_ns; /* when it is given up */
    int64_t every_ns;
    int64_t stall_ns;
    int64_t write_ns;
    double work_ns;      /* done, all that is not lost */
    double memory_ns;    /* of it: in the newest checkpoint in memory, */
    double storage_ns;   /* and of use in storage */
    double writing_ns;   /* being written, until: */
    int64_t written_ns;  /* FOREVER_NS: nothing is */
    int64_t interval_ns; /* trained since the last checkpoint */
    int64_t stalled_ns;  /* of a checkpoint that is being taken */
    uint32_t unwritten;  /* checkpoints in memory alone */
    int64_t *back_ns;    /* [away]: when each host that is away is back */
    uint32_t away;
    bool done;
    double part_ns[TUTTI_RUN_PART_COUNT];
    struct tutti_long_run_times result;
};

static int64_t nanoseconds(double s)
{
    return s * 1e9 < (double)FOREVER_NS ? (int64_t)llround(s * 1e9) : FOREVER_NS;
}

static void spend(struct play *p, enum tutti_long_run_part part, int64_t ns)
{
    p->part_ns[part] += (double)ns;
    p->now_ns += ns;
}

static uint32_t missing(const struct play *p)
{
    return p->away > p->t.spares ? p->away - p->t.spares : 0;
}

static void draw_failure(struct play *p)
{
    double at, sum = 0;

    p->failure_ns = FOREVER_NS;
    if (p->t.rate_sum <= 0)
        return;
    at = -log(1 - tutti_random_unit(&p->random)) / p->t.rate_sum;
    p->failure_ns = p->now_ns + nanoseconds(at) + 1;
    at = tutti_random_unit(&p->random) * p->t.rate_sum;
    for (p->cause = 0; p->cause + 1 < p->t.run.cause_count; p->cause++) {
        sum += p->t.rate[p->cause];
        if (at < sum)
            break;
    }
}

/* ---- training -------------------------------------------------------------------------------- */

static void settle_write(struct play *p)
{
    if (p->now_ns < p->written_ns)
        return;
    p->storage_ns = p->writing_ns;
    p->written_ns = FOREVER_NS;
}

static void checkpoint_taken(struct play *p)
{
    p->result.checkpoints++;
    p->stalled_ns = 0;
    p->interval_ns = 0;
    p->memory_ns = p->work_ns;
    p->unwritten++;
    if (p->unwritten < p->t.level && p->work_ns < (double)p->goal_ns)
        return;
    p->unwritten = 0;
    p->writing_ns = p->work_ns;
    p->written_ns = p->now_ns + p->write_ns;
    settle_write(p);
}

/* Trains for so long at most, until a checkpoint is due or all is done. */
static void work(struct play *p, int64_t ns, double pace)
{
    const double left_ns = ceil(((double)p->goal_ns - p->work_ns) / pace);
    double done_ns;

    if (p->every_ns - p->interval_ns < ns)
        ns = p->every_ns - p->interval_ns;
    if (left_ns < (double)ns)
        ns = (int64_t)left_ns;
    done_ns = fmin((double)ns * pace, (double)p->goal_ns - p->work_ns);
    p->work_ns += done_ns;
    p->interval_ns += ns;
    p->part_ns[TUTTI_RUN_FEWER] += (double)ns - done_ns;
    p->now_ns += ns;
}

/* Up to `until_ns`; the end is a checkpoint, which is waited for whole. */
static void train(struct play *p, int64_t until_ns)
{
    const double pace = tutti_run_pace(&p->t, missing(p));

    while (p->now_ns < until_ns && !p->done) {
        const bool all_done = p->work_ns >= (double)p->goal_ns;

        settle_write(p);
        if (all_done && p->storage_ns >= (double)p->goal_ns) {
            p->done = true;
        } else if (all_done && p->memory_ns >= (double)p->goal_ns) {
            int64_t ns =
                p->written_ns < until_ns ? p->written_ns - p->now_ns : until_ns - p->now_ns;

            spend(p, TUTTI_RUN_CHECKPOINT, ns);
        } else if (all_done || p->interval_ns >= p->every_ns) {
            int64_t ns = p->stall_ns - p->stalled_ns;

            if (ns > until_ns - p->now_ns)
                ns = until_ns - p->now_ns;
            p->stalled_ns += ns;
            spend(p, TUTTI_RUN_CHECKPOINT, ns);
            if (p->stalled_ns == p->stall_ns)
                checkpoint_taken(p);
        } else {
            work(p, until_ns - p->now_ns, pace);
        }
    }
    settle_write(p);
}

/* ---- interruptions --------------------------------------------------------------------------- */

/* The host that is back first; UINT32_MAX: none is away. */
static uint32_t first_back(const struct play *p)
{
    uint32_t first = UINT32_MAX;

    for (uint32_t i = 0; i < p->away; i++)
        if (first == UINT32_MAX || p->back_ns[i] < p->back_ns[first])
            first = i;
    return first;
}

/* Those that are back by now. */
static void take_back(struct play *p)
{
    for (uint32_t i = 0; i < p->away;)
        if (p->back_ns[i] <= p->now_ns)
            p->back_ns[i] = p->back_ns[--p->away];
        else
            i++;
}

/* Goes back to the newest checkpoint that is left. */
static void lose(struct play *p, bool in_memory)
{
    const double kept_ns = in_memory ? p->memory_ns : p->storage_ns;

    p->part_ns[TUTTI_RUN_LOST] += p->work_ns - kept_ns;
    p->work_ns = p->memory_ns = kept_ns;
    if (!in_memory)
        p->unwritten = 0;
    p->written_ns = FOREVER_NS;
    p->interval_ns = p->stalled_ns = 0;
}

/* A stop that is known long enough before. */
static void save(struct play *p)
{
    spend(p, TUTTI_RUN_CHECKPOINT, p->stall_ns + p->write_ns);
    p->result.checkpoints++;
    p->memory_ns = p->storage_ns = p->work_ns;
    p->unwritten = 0;
    p->written_ns = FOREVER_NS;
    p->interval_ns = p->stalled_ns = 0;
}

/* A host goes; what takes its place. */
static enum tutti_spare take_away(struct play *p, uint32_t cause)
{
    const int64_t away_ns = p->t.run.causes[cause].away_ps / TUTTI_PS_PER_NS;
    enum tutti_spare spare;

    take_back(p);
    spare = tutti_run_spare(&p->t, p->away);
    p->back_ns[p->away++] = p->now_ns + away_ns;
    return spare;
}

/* Until there is a host for each that it does not go on without. */
static bool waits(struct play *p)
{
    int64_t until_ns;

    if (missing(p) <= p->t.missing_max)
        return false;
    until_ns = p->back_ns[first_back(p)];
    if (until_ns > p->now_ns) {
        const int64_t ns = until_ns < p->end_ns ? until_ns - p->now_ns : p->end_ns - p->now_ns;

        p->failure_ns += p->failure_ns < FOREVER_NS ? ns : 0; /* nothing fails meanwhile */
        spend(p, TUTTI_RUN_WAIT, ns);
    }
    take_back(p);
    return true;
}

/* True: all of it went by. False: another failure, or the end, came first. */
static bool pass(struct play *p, enum tutti_long_run_part part, double s)
{
    const int64_t ns = nanoseconds(s);
    const int64_t stop_ns = p->failure_ns < p->end_ns ? p->failure_ns : p->end_ns;

    if (p->now_ns + ns < stop_ns) {
        spend(p, part, ns);
        return true;
    }
    spend(p, part, stop_ns > p->now_ns ? stop_ns - p->now_ns : 0);
    return false;
}

/* From detection until it trains again. */
static bool recover(struct play *p, uint32_t cause, enum tutti_spare spare)
{
    struct tutti_recovery recovery;

    tutti_run_recovery(&p->t, cause, spare, &recovery);
    if (waits(p))
        tutti_run_recovery(&p->t, cause, TUTTI_SPARE_AWAITED, &recovery);
    return pass(p, TUTTI_RUN_DETECT, recovery.part_s[0]) &&
           pass(p, TUTTI_RUN_SWAP, recovery.part_s[1]) &&
           pass(p, TUTTI_RUN_RESTART, recovery.part_s[2]);
}

/* Devices of hosts that are not there do not fail. */
static bool is_there(struct play *p)
{
    return missing(p) == 0 || tutti_random_unit(&p->random) * p->t.hosts >= (double)missing(p);
}

/* The failure that is due, and those that come before it is over. */
static void interrupt(struct play *p)
{
    bool recovered = false;
    bool trains = true; /* until the first of them */

    while (!recovered && p->now_ns >= p->failure_ns && p->now_ns < p->end_ns &&
           p->now_ns <= p->patience_ns) {
        const uint32_t cause = p->cause;
        const struct tutti_failure_cause *c = &p->t.run.causes[cause];
        enum tutti_spare spare = TUTTI_SPARE_NONE_NEEDED;

        if (!is_there(p)) {
            draw_failure(p);
            return;
        }
        p->result.interruptions++;
        p->result.by_cause[cause]++;
        if (p->t.noticed[cause] && trains)
            save(p);
        else if (!p->t.noticed[cause])
            lose(p, p->t.run.async && c->keeps_memory);
        draw_failure(p);
        if (c->away_ps > 0)
            spare = take_away(p, cause);
        recovered = recover(p, cause, spare);
        trains = false;
    }
}

/* A host is back of those that the training goes on without. */
static void rejoin(struct play *p)
{
    take_back(p);
    (void)pass(p, TUTTI_RUN_RESTART, p->t.restart_s);
}

static int64_t next_stop(const struct play *p, bool *ret_rejoins)
{
    int64_t stop_ns = p->failure_ns < p->end_ns ? p->failure_ns : p->end_ns;
    const int64_t back_ns = missing(p) > 0 ? p->back_ns[first_back(p)] : FOREVER_NS;

    *ret_rejoins = back_ns < stop_ns;
    return *ret_rejoins ? back_ns : stop_ns;
}

static int play_all(struct play *p, struct tutti_err *err)
{
    draw_failure(p);
    while (!p->done && p->now_ns < p->end_ns) {
        bool rejoins;
        const int64_t stop_ns = next_stop(p, &rejoins);

        train(p, stop_ns);
        if (p->done)
            break;
        if (rejoins)
            rejoin(p);
        if (p->now_ns >= p->failure_ns)
            interrupt(p);
        if (p->now_ns > p->patience_ns)
            return tutti_fail(err, TUTTI_ECHECK,
                              "the training fails more often than it gets on: %.3g %% of it done "
                              "after %d times as long",
                              100 * p->work_ns / (double)p->goal_ns, TOO_SLOW);
    }
    return 0;
}

static void report(struct play *p, struct tutti_long_run_times *ret)
{
    *ret = p->result;
    tutti_run_describe(&p->t, ret);
    p->part_ns[TUTTI_RUN_USEFUL] = p->work_ns;
    ret->total_s = (double)p->now_ns / 1e9;
    for (int i = 0; i < TUTTI_RUN_PART_COUNT; i++)
        ret->part_s[i] = p->part_ns[i] / 1e9;
    ret->goodput = p->now_ns > 0 ? p->work_ns / (double)p->now_ns : 0;
}

int tutti_long_run_play(const struct tutti_long_run *run, struct tutti_long_run_times *ret,
                        struct tutti_err *err)
{
    struct play p = {.now_ns = 0, .written_ns = FOREVER_NS};
    int status = tutti_run_times_of(run, &p.t, err);

    if (status < 0)
        return status;
    if (p.t.every_s <= 0)
        tutti_run_times_every(&p.t, tutti_run_best_s(&p.t));
    p.back_ns = calloc((size_t)p.t.spares + p.t.missing_max + 1, sizeof(*p.back_ns));
    if (p.back_ns == NULL)
        return tutti_nomem(err);
    p.end_ns = p.t.run.wall_s > 0 ? nanoseconds(p.t.run.wall_s) : FOREVER_NS;
    p.goal_ns = p.t.run.work_s > 0 ? nanoseconds(p.t.run.work_s) : FOREVER_NS;
    p.patience_ns = p.t.run.wall_s > 0 ? FOREVER_NS : nanoseconds(TOO_SLOW * p.t.run.work_s);
    p.every_ns = nanoseconds(p.t.every_s) + 1;
    p.stall_ns = nanoseconds(p.t.stall_s);
    p.write_ns = nanoseconds(p.t.write_s);
    tutti_random_seed(&p.random, p.t.run.seed);
    status = play_all(&p, err);
    if (status == 0)
        report(&p, ret);
    free(p.back_ns);
    return status;
}
