/* How often to save, and how quickly to be back. */
#include <math.h>

#include "runtime/status.h"
#include "sim/long_run/run.h"

static const double WEEK_S = 7 * 86400.0;

static tutti_ps picoseconds(double s)
{
    return s * 1e12 < (double)(INT64_MAX / 2) ? (tutti_ps)(s * 1e12) : INT64_MAX / 2;
}

tutti_ps tutti_long_run_young(tutti_ps stall_ps, double mtbf_s)
{
    return picoseconds(sqrt(2 * (double)stall_ps / 1e12 * mtbf_s));
}

tutti_ps tutti_long_run_daly(tutti_ps stall_ps, double mtbf_s)
{
    const double stall_s = (double)stall_ps / 1e12;
    const double half = sqrt(stall_s / (2 * mtbf_s));

    if (stall_s >= 2 * mtbf_s)
        return picoseconds(mtbf_s);
    return picoseconds(sqrt(2 * stall_s * mtbf_s) * (1 + half / 3 + half * half / 9) - stall_s);
}

/* With whole steps where the run has some. */
static double goodput_at(const struct tutti_run_times *t, double every_s)
{
    struct tutti_run_times at = *t;
    struct tutti_long_run_times times;

    tutti_run_times_every(&at, every_s);
    tutti_run_expected(&at, &times);
    return times.goodput;
}

/* By golden sections of the logarithm: goodput rises to one best interval and falls behind it. */
static double best_of_any_s(const struct tutti_run_times *t)
{
    enum { SECTIONS = 60 };
    const double ratio = (sqrt(5.0) - 1) / 2;
    double low = log(fmax(1, t->write_s / t->level - t->stall_s));
    double high = log(WEEK_S);
    double a, b, at_a, at_b;

    if (t->rate_sum <= 0 || low >= high)
        return fmax(WEEK_S, exp(low));
    a = high - ratio * (high - low);
    b = low + ratio * (high - low);
    at_a = goodput_at(t, exp(a));
    at_b = goodput_at(t, exp(b));
    for (int i = 0; i < SECTIONS; i++) {
        if (at_a >= at_b) {
            high = b;
            b = a;
            at_b = at_a;
            a = high - ratio * (high - low);
            at_a = goodput_at(t, exp(a));
        } else {
            low = a;
            a = b;
            at_a = at_b;
            b = low + ratio * (high - low);
            at_b = goodput_at(t, exp(b));
        }
    }
    return exp((low + high) / 2);
}

/* Of whole steps the best are next to the best of all. */
double tutti_run_best_s(const struct tutti_run_times *t)
{
    struct tutti_run_times any = *t;
    double best_s, fewer_s;

    any.step_s = 0;
    best_s = best_of_any_s(&any);
    fewer_s = best_s - t->step_s;
    if (t->step_s <= 0 || fewer_s <= 0 || goodput_at(t, fewer_s) < goodput_at(t, best_s))
        return best_s;
    return fewer_s;
}

int tutti_long_run_best(const struct tutti_long_run *run, tutti_ps *ret, struct tutti_err *err)
{
    struct tutti_run_times t;
    int status = tutti_run_times_of(run, &t, err);

    if (status < 0)
        return status;
    tutti_run_times_every(&t, tutti_run_best_s(&t));
    *ret = picoseconds(t.every_s);
    return 0;
}

static double best_goodput(struct tutti_run_times *t, double restart_s)
{
    t->restart_s = restart_s;
    return goodput_at(t, tutti_run_best_s(t));
}

int tutti_long_run_restart_for(const struct tutti_long_run *run, double goodput, tutti_ps *ret,
                               struct tutti_err *err)
{
    struct tutti_run_times t;
    double low = 0, high = WEEK_S;
    int status = tutti_run_times_of(run, &t, err);

    if (status < 0)
        return status;
    *ret = -1;
    if (best_goodput(&t, 0) < goodput)
        return 0;
    for (int i = 0; i < 40; i++) {
        const double middle = (low + high) / 2;

        if (best_goodput(&t, middle) >= goodput)
            low = middle;
        else
            high = middle;
    }
    *ret = picoseconds(low);
    return 0;
}
