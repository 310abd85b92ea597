/* The closed form of a long run: renewals of runs between interruptions, and hosts that are away as
 * a process of births and deaths. */
#include <math.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/long_run/run.h"

/* How often, of the time that it does not wait, each kind of spare is what an interruption finds;
 * and what hosts that are away cost. */
struct away {
    double found[TUTTI_SPARE_COUNT]; /* enum tutti_spare */
    double waiting;                  /* of the time */
    double pace;                     /* mean of its rate while it does not wait, */
    double there;                    /* and of its hosts */
    double rejoins; /* a second: hosts that come back to a training that went on without them */
};

static void scale_away(struct away *away, double factor)
{
    for (size_t k = 0; k < TUTTI_SPARE_COUNT; k++)
        away->found[k] *= factor;
    away->pace *= factor;
    away->there *= factor;
    away->rejoins *= factor;
}

/* Hosts away, j: one more at the rate of failures that take hosts, one fewer at j over the mean
 * time; with spares + missing_max + 1 away the training waits, and nothing fails. By the mean time
 * alone (Erlang's loss formula does not depend on how times are spread). */
static void find_away(const struct tutti_run_times *t, struct away *ret)
{
    const uint32_t last = t->spares + t->missing_max + 1;
    double busy = 0, rate = 0, sum = 1, p = 1;

    memset(ret, 0, sizeof(*ret));
    for (uint32_t i = 0; i < t->run.cause_count; i++)
        if (t->run.causes[i].away_ps > 0) {
            rate += t->rate[i];
            busy += t->rate[i] * (double)t->run.causes[i].away_ps / 1e12;
        }
    ret->found[tutti_run_spare(t, 0)] = 1;
    ret->pace = ret->there = 1;
    if (busy <= 0)
        return;
    for (uint32_t j = 1; j <= last; j++) {
        const uint32_t missing = j - 1 > t->spares ? j - 1 - t->spares : 0;

        p *= busy * (double)(t->hosts - missing) / t->hosts / j;
        if (j == last)
            break;
        sum += p;
        ret->found[tutti_run_spare(t, j)] += p;
        ret->pace += p * (j > t->spares ? tutti_run_pace(t, j - t->spares) : 1);
        ret->there += p * (double)(t->hosts - (j > t->spares ? j - t->spares : 0)) / t->hosts;
        ret->rejoins += j > t->spares ? p * j * rate / busy : 0;
        if (sum > 1e200) { /* only shares matter */
            scale_away(ret, 1 / sum);
            p /= sum;
            sum = 1;
        }
    }
    scale_away(ret, 1 / sum);
    ret->waiting = p / (sum + p);
    ret->rejoins *= 1 - ret->waiting;
}

/* What runs between interruptions come to, in seconds a run, and an interruption in recoveries. */
struct runs {
    double work_s;  /* done, lost or not */
    double kept_s;  /* of it */
    double saves_s; /* of stops that are known before */
    double part_s[RECOVERY_PARTS];
    double recovery_s; /* their sum */
    double again;      /* of recoveries: another interruption begins them anew */
    double all_s;      /* of a run: up, saving and recovering */
    double checkpoints;
};

/* Recoveries of each cause with each spare, of which another interruption begins a new one. */
static void find_recovery(const struct tutti_run_times *t, const struct away *away,
                          struct runs *ret)
{
    double over = 1e-200; /* recoveries that nothing interrupts */

    for (uint32_t i = 0; i < t->run.cause_count; i++)
        for (int spare = 0; spare < TUTTI_SPARE_COUNT; spare++) {
            const bool takes = t->run.causes[i].away_ps > 0;
            const double share = t->rate[i] / t->rate_sum *
                                 (takes ? away->found[spare] : spare == TUTTI_SPARE_NONE_NEEDED);
            struct tutti_recovery recovery;
            double at_s = 0;

            if (share <= 0)
                continue;
            tutti_run_recovery(t, i, (enum tutti_spare)spare, &recovery);
            for (int k = 0; k < RECOVERY_PARTS; k++) {
                const double end_s = at_s + recovery.part_s[k];

                ret->part_s[k] +=
                    share * (exp(-t->rate_sum * at_s) - exp(-t->rate_sum * end_s)) / t->rate_sum;
                at_s = end_s;
            }
            over += share * exp(-t->rate_sum * at_s);
        }
    ret->again = fmax(0, 1 - over);
    for (int k = 0; k < RECOVERY_PARTS; k++) {
        ret->part_s[k] /= over;
        ret->recovery_s += ret->part_s[k];
    }
}

/* Checkpoints that were only in memory when storage is needed, of `level` that make one written:
 * their number since the last that began anew is geometric. `ret_written`: written of all taken. */
static double in_memory_only(double survive, double keeps, uint32_t level, double *ret_written)
{
    const double q = survive / (1 - (1 - survive) * keeps);
    double sum = 0, weighted = 0, power = 1;

    for (uint32_t c = 0; c < level; c++) {
        sum += power;
        weighted += c * power;
        power *= q;
    }
    *ret_written = 1 - q < 1e-9 ? 1.0 / level : q > 0 ? power / (1 - power) * (1 - q) / q : 0;
    return weighted / sum;
}

static void find_runs(const struct tutti_run_times *t, struct runs *ret)
{
    const double f = t->rate_sum;
    const double length_s = t->every_s + t->stall_s;
    const double survive = exp(-f * length_s);
    const double taken = 1 / expm1(f * length_s); /* checkpoints of a run */
    double noticed = 0, kept_in_memory = 0, lost_all, written, carried;

    for (uint32_t i = 0; i < t->run.cause_count; i++) {
        noticed += t->noticed[i] ? t->rate[i] / f : 0;
        if (t->run.async && t->run.causes[i].keeps_memory && !t->noticed[i])
            kept_in_memory += t->rate[i] / f;
    }
    /* What memory kept is lost after all with another failure before it was read. */
    lost_all = 1 - noticed - kept_in_memory;
    kept_in_memory *= 1 - ret->again * lost_all / (1 - ret->again * (1 - lost_all));
    lost_all = 1 - noticed - kept_in_memory;
    carried = in_memory_only(survive, kept_in_memory, t->level, &written);
    ret->work_s = expm1(-f * t->every_s) / (f * expm1(-f * length_s));
    ret->kept_s =
        ret->work_s - (1 - noticed) * (ret->work_s - t->every_s * taken) -
        lost_all * t->every_s * (carried + t->level * taken * written * -expm1(-f * t->write_s));
    ret->kept_s = fmax(0, ret->kept_s); /* to first order where some are in memory alone */
    ret->saves_s = noticed * t->save_s;
    ret->checkpoints = taken + noticed;
    ret->all_s = 1 / f + ret->saves_s + ret->recovery_s;
}

static void set_total(const struct tutti_run_times *t, struct tutti_long_run_times *ret)
{
    double needs_s =
        ret->goodput > 0 && t->run.work_s > 0 ? t->run.work_s / ret->goodput : INFINITY;

    ret->total_s = t->run.wall_s > 0 && (t->run.wall_s < needs_s) ? t->run.wall_s : needs_s;
    for (int i = 0; i < TUTTI_RUN_PART_COUNT; i++)
        ret->part_s[i] *= ret->total_s;
    for (uint32_t i = 0; i < t->run.cause_count; i++)
        ret->by_cause[i] *= ret->total_s;
    ret->interruptions *= ret->total_s;
    ret->checkpoints *= ret->total_s;
}

static void without_failures(const struct tutti_run_times *t, struct tutti_long_run_times *ret)
{
    const double length_s = t->every_s + t->stall_s;

    ret->goodput = ret->part_s[TUTTI_RUN_USEFUL] = t->every_s / length_s;
    ret->part_s[TUTTI_RUN_CHECKPOINT] = t->stall_s / length_s;
    ret->checkpoints = 1 / length_s;
}

void tutti_run_expected(const struct tutti_run_times *asked, struct tutti_long_run_times *ret)
{
    struct tutti_run_times t = *asked; /* failures by the hosts that are there */
    struct away away;
    struct runs runs = {.work_s = 0};
    double there, runs_per_s;

    memset(ret, 0, sizeof(*ret));
    tutti_run_describe(&t, ret);
    if (t.rate_sum <= 0) {
        without_failures(&t, ret);
        set_total(&t, ret);
        return;
    }
    find_away(&t, &away);
    for (uint32_t i = 0; i < t.run.cause_count; i++)
        t.rate[i] *= away.there;
    t.rate_sum *= away.there;
    find_recovery(&t, &away, &runs);
    find_runs(&t, &runs);
    ret->part_s[TUTTI_RUN_WAIT] = away.waiting;
    ret->part_s[TUTTI_RUN_RESTART] = fmin(1 - away.waiting, away.rejoins * t.restart_s);
    there = 1 - away.waiting - ret->part_s[TUTTI_RUN_RESTART];
    runs_per_s = there / runs.all_s;
    ret->part_s[TUTTI_RUN_USEFUL] = runs_per_s * runs.kept_s * away.pace;
    ret->part_s[TUTTI_RUN_LOST] = runs_per_s * (runs.work_s - runs.kept_s) * away.pace;
    ret->part_s[TUTTI_RUN_FEWER] = runs_per_s * runs.work_s * (1 - away.pace);
    ret->part_s[TUTTI_RUN_CHECKPOINT] = runs_per_s * (1 / t.rate_sum - runs.work_s + runs.saves_s);
    ret->part_s[TUTTI_RUN_DETECT] = runs_per_s * runs.part_s[0];
    ret->part_s[TUTTI_RUN_SWAP] = runs_per_s * runs.part_s[1];
    ret->part_s[TUTTI_RUN_RESTART] += runs_per_s * runs.part_s[2];
    ret->goodput = ret->part_s[TUTTI_RUN_USEFUL];
    ret->checkpoints = runs_per_s * runs.checkpoints;
    for (uint32_t i = 0; i < t.run.cause_count; i++) {
        /* Those that come while it recovers are counted as well. */
        ret->by_cause[i] = t.rate[i] * (there - runs_per_s * runs.saves_s);
        ret->interruptions += ret->by_cause[i];
    }
    set_total(&t, ret);
}

int tutti_long_run_expect(const struct tutti_long_run *run, struct tutti_long_run_times *ret,
                          struct tutti_err *err)
{
    struct tutti_run_times t;
    int status = tutti_run_times_of(run, &t, err);

    if (status < 0)
        return status;
    if (t.every_s <= 0)
        tutti_run_times_every(&t, tutti_run_best_s(&t));
    tutti_run_expected(&t, ret);
    return 0;
}
