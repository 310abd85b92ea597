/* Asks what a training of days comes to, what else it could, and what it costs; goodput.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/goodput/goodput.h"
#include "topo/hardware.h"

/* 2 TB/s for the 2,048 hosts of Llama 3's training. */
static const uint64_t HOST_SAVE_BYTES_PER_S = UINT64_C(976562500);

/* The PCIe of the slowest GPUs that are used for it, V100 and T4, on 16 lanes. */
enum { COPY_PCIE_GENERATION = 3 };

static const double DAY_S = 86400;

enum { NUMBER_BYTES = 4 };

/* Checkpoints and interruptions of all runs together: a few seconds. */
static const double EVENTS_MAX = 1e8;

static tutti_ps picoseconds(double s)
{
    return s * 1e12 < (double)(INT64_MAX / 4) ? (tutti_ps)(s * 1e12) : INT64_MAX / 4;
}

/* ---- what is asked --------------------------------------------------------------------------- */

static void add_cause(const struct tutti_goodput_question *q, struct tutti_goodput_answer *a,
                      int cause, double mtbf_s)
{
    static const char *const names[TUTTI_GOODPUT_CAUSE_COUNT] = {
        "device", "host", "network", "software", "planned", "preempted"};
    struct tutti_failure_cause *c = &a->causes[a->run.cause_count];

    if (mtbf_s <= 0)
        return;
    *c = (struct tutti_failure_cause){.name = names[cause],
                                      .mtbf_s = mtbf_s,
                                      .detect_ps = picoseconds(q->detect_s),
                                      .keeps_memory = q->memory};
    if (cause <= TUTTI_GOODPUT_NETWORK)
        c->away_ps = picoseconds(q->repair_s);
    if (cause == TUTTI_GOODPUT_PLANNED)
        c->notice_ps = INT64_MAX / 4;
    if (cause == TUTTI_GOODPUT_PREEMPT) {
        c->notice_ps = picoseconds(q->notice_s);
        c->away_ps = picoseconds(q->return_s);
    }
    a->run.cause_count++;
}

static void set_causes(const struct tutti_goodput_question *q, struct tutti_goodput_answer *a)
{
    const double host = a->job.host_devices, all = a->job.device_count;
    const double of[TUTTI_GOODPUT_CAUSE_COUNT] = {1, host, host, all, all, host};

    for (int i = 0; i < TUTTI_GOODPUT_CAUSE_COUNT; i++) {
        double mean_s = q->mean_s[i] * of[i];

        if (q->llama3 && (uint32_t)i < tutti_failures_llama3_count)
            mean_s = tutti_failures_llama3[i].mtbf_s;
        add_cause(q, a, i, mean_s);
    }
    a->run.causes = a->causes;
}

/* Of a device to its host; 0: not said. */
static uint64_t copy_rate(uint64_t said)
{
    return said > 0 ? said : tutti_hw_pcie_bytes_per_s(COPY_PCIE_GENERATION);
}

static void set_run(const struct tutti_goodput_question *q, struct tutti_goodput_answer *a)
{
    const struct tutti_goodput_job *job = &a->job;
    struct tutti_long_run *run = &a->run;

    *run = (struct tutti_long_run){.size = sizeof(*run),
                                   .device_count = job->device_count,
                                   .host_devices = job->host_devices,
                                   .replica_devices = job->replica_devices,
                                   .state_bytes = job->state_bytes,
                                   .save_bytes_per_s = q->save_bytes_per_s,
                                   .device_save_bytes_per_s = q->device_bytes_per_s,
                                   .async = q->async,
                                   .copy_bytes_per_s = copy_rate(q->copy_bytes_per_s),
                                   .storage_every = q->storage_every,
                                   .every_ps = picoseconds(q->every_s),
                                   .restart_ps = picoseconds(q->restart_s),
                                   .restart_device_ps = picoseconds(q->restart_device_s),
                                   .hot_spares = q->spares,
                                   .hot_swap_ps = picoseconds(q->swap_s),
                                   .cold_spares = q->cold_spares,
                                   .cold_swap_ps = picoseconds(q->cold_swap_s),
                                   .least_devices = q->least_devices,
                                   .wall_s = job->steps > 0 ? 0 : q->days * DAY_S,
                                   .seed = q->seed,
                                   .step_ps = job->step_ps};
    a->copy_assumed = q->async && q->copy_bytes_per_s == 0;
    a->save_assumed = q->save_bytes_per_s == 0 && q->device_bytes_per_s == 0;
    if (a->save_assumed)
        run->save_bytes_per_s = HOST_SAVE_BYTES_PER_S * (job->device_count / job->host_devices);
    if (job->steps > 0)
        run->work_s = (double)job->steps * (double)job->step_ps / 1e12;
    set_causes(q, a);
}

/* ---- what else it could be ------------------------------------------------------------------- */

/* Each in whole steps. `other`: not told where those make it the best, which is first. */
static int try_interval(struct tutti_goodput_answer *a, const char *what, tutti_ps every_ps,
                        bool other, struct tutti_err *err)
{
    struct tutti_long_run run = a->run;
    struct tutti_long_run_times times;
    int status;

    run.every_ps = every_ps > 0 ? every_ps : 1;
    status = tutti_long_run_expect(&run, &times, err);
    if (status == 0 && (!other || times.every_ps != a->tried[0].every_ps))
        a->tried[a->tried_count++] =
            (struct tutti_goodput_tried){what, times.every_ps, times.goodput};
    return status;
}

static int try_intervals(struct tutti_goodput_answer *a, struct tutti_err *err)
{
    const tutti_ps stall_ps = a->expected.stall_ps;
    const double mtbf_s = a->expected.mtbf_unknown_s;
    tutti_ps best = 0;
    int status = tutti_long_run_best(&a->run, &best, err);

    if (status == 0)
        status = try_interval(a, "best", best, false, err);
    if (status == 0 && stall_ps > 0 && mtbf_s > 0)
        status = try_interval(a, "Young's", tutti_long_run_young(stall_ps, mtbf_s), false, err);
    if (status == 0 && stall_ps > 0 && mtbf_s > 0)
        status = try_interval(a, "Daly's", tutti_long_run_daly(stall_ps, mtbf_s), false, err);
    if (status == 0)
        status = try_interval(a, "four times as often", best / 4, true, err);
    if (status == 0)
        status = try_interval(a, "four times as rarely", best * 4, true, err);
    return status;
}

/* Goodput with something better, at its best interval unless one was said. */
static int try_better(struct tutti_goodput_answer *a, const char *what,
                      const struct tutti_long_run *run, struct tutti_err *err)
{
    struct tutti_long_run_times times;
    int status = tutti_long_run_expect(run, &times, err);

    if (status == 0)
        a->helps[a->helps_count++] = (struct tutti_goodput_helps){what, times.goodput};
    return status;
}

static int find_helps(struct tutti_goodput_answer *a, struct tutti_err *err)
{
    struct tutti_failure_cause rarer[TUTTI_GOODPUT_CAUSE_COUNT];
    struct tutti_long_run run = a->run;
    int status;

    run.restart_ps /= 2;
    run.restart_device_ps /= 2;
    status = try_better(a, "restarts twice as quick", &run, err);
    run = a->run;
    memcpy(rarer, a->causes, sizeof(rarer));
    for (uint32_t i = 0; i < run.cause_count; i++)
        rarer[i].mtbf_s *= 2;
    run.causes = rarer;
    if (status == 0)
        status = try_better(a, "half the failures", &run, err);
    run = a->run;
    run.save_bytes_per_s *= 2;
    run.device_save_bytes_per_s *= 2;
    if (status == 0)
        status = try_better(a, "storage twice as fast", &run, err);
    run = a->run;
    run.async = true;
    if (status == 0 && !a->run.async)
        status = try_better(a, "checkpoints beside training", &run, err);
    run = a->run;
    run.hot_spares++;
    if (status == 0 && a->expected.part_s[TUTTI_RUN_WAIT] + a->expected.part_s[TUTTI_RUN_FEWER] > 0)
        status = try_better(a, "one more spare", &run, err);
    return status;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void percentiles(double *values, uint32_t count, double ret[3])
{
    static const double at[3] = {0.1, 0.5, 0.9};

    qsort(values, count, sizeof(*values), compare);
    for (int i = 0; i < 3; i++)
        ret[i] = values[(uint32_t)lround(at[i] * (count - 1))];
}

/* As many runs as were asked for, or as there is time for. */
static uint32_t run_count(const struct tutti_goodput_question *q,
                          const struct tutti_goodput_answer *a)
{
    const double events = a->expected.checkpoints + a->expected.interruptions + 1;

    return q->runs * events <= EVENTS_MAX ? q->runs : (uint32_t)(EVENTS_MAX / events);
}

static int play(const struct tutti_goodput_question *q, struct tutti_goodput_answer *a,
                struct tutti_err *err)
{
    const uint32_t runs = run_count(q, a);
    double *values = calloc((size_t)runs * 3 + 1, sizeof(*values));
    double *days = values + runs, *interruptions = values + (size_t)2 * runs;
    int status = values == NULL ? tutti_nomem(err) : 0;

    for (uint32_t i = 0; i < runs && status == 0; i++) {
        struct tutti_long_run run = a->run;
        struct tutti_long_run_times times;

        run.every_ps = a->expected.every_ps;
        run.seed = q->seed + i;
        status = tutti_long_run_play(&run, &times, err);
        if (status < 0)
            break;
        values[i] = times.goodput;
        days[i] = times.total_s / DAY_S;
        interruptions[i] = times.interruptions;
        a->runs_within += days[i] <= q->days;
    }
    if (status == 0 && runs > 0) {
        percentiles(values, runs, a->goodput);
        percentiles(days, runs, a->days);
        percentiles(interruptions, runs, a->interruptions);
        a->runs = runs;
    }
    free(values);
    return status;
}

static void price(struct tutti_goodput_answer *a)
{
    const uint64_t devices =
        a->job.device_count + (uint64_t)a->run.hot_spares * a->job.host_devices;
    const double us = a->expected.total_s * 1e6;

    if (a->job.device != NULL && a->job.prices != NULL)
        a->cost = tutti_cost_of(a->job.prices, a->job.device, devices,
                                us < (double)INT64_MAX ? (uint64_t)us : INT64_MAX);
}

static int check(const struct tutti_goodput_question *q, const struct tutti_goodput_job *job,
                 struct tutti_err *err)
{
    if (q->least_devices > job->device_count)
        return tutti_fail(err, TUTTI_EINVAL, "option '--failures': 'least=%u' of %u devices",
                          q->least_devices, job->device_count);
    return 0;
}

uint64_t tutti_goodput_state_bytes(uint64_t parameters, enum tutti_optimizer optimizer)
{
    const uint64_t numbers = optimizer == TUTTI_OPTIMIZER_ADAM       ? 3
                             : optimizer == TUTTI_OPTIMIZER_MOMENTUM ? 2
                                                                     : 1;

    return parameters * numbers * NUMBER_BYTES;
}

int tutti_goodput_ask(const struct tutti_goodput_question *q, const struct tutti_goodput_job *job,
                      struct tutti_goodput_answer *ret, struct tutti_err *err)
{
    int status = check(q, job, err);

    if (status < 0)
        return status;
    *ret = (struct tutti_goodput_answer){.job = *job};
    if (ret->job.host_devices == 0 || job->device_count % ret->job.host_devices != 0)
        ret->job.host_devices = 1;
    if (ret->job.replica_devices == 0 || job->device_count % ret->job.replica_devices != 0)
        ret->job.replica_devices = job->device_count;
    set_run(q, ret);
    status = tutti_long_run_expect(&ret->run, &ret->expected, err);
    if (status == 0 && ret->expected.goodput < 0.01)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a failure each '%.3g' s leaves less than 1 %% of the time for training "
                          "(rarer failures, quicker restarts, or fewer devices)",
                          ret->expected.mtbf_s);
    if (status == 0)
        status = try_intervals(ret, err);
    if (status == 0)
        status = find_helps(ret, err);
    if (status == 0)
        status = tutti_long_run_restart_for(&ret->run, 0.9, &ret->restart_for_90, err);
    if (status == 0)
        status = play(q, ret, err);
    ret->steps_done =
        (uint64_t)(ret->expected.goodput * ret->expected.total_s * 1e12 / (double)job->step_ps);
    price(ret);
    return status;
}
