/* The times of a long run, made of what was asked; see run.h. */
#include <math.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/long_run/run.h"

static double seconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_S;
}

static double wire_s(double bytes, uint64_t bytes_per_s)
{
    return bytes_per_s > 0 ? bytes / (double)bytes_per_s : 0;
}

const char *tutti_long_run_part_name(enum tutti_long_run_part part)
{
    static const char *const names[TUTTI_RUN_PART_COUNT] = {
        "useful", "checkpoints", "lost work", "detection",
        "spares", "restart",     "waiting",   "fewer replicas"};

    return part < TUTTI_RUN_PART_COUNT ? names[part] : "unknown";
}

static int check_causes(const struct tutti_long_run *run, struct tutti_err *err)
{
    if (run->cause_count > TUTTI_FAILURE_CAUSES_MAX ||
        (run->cause_count > 0 && run->causes == NULL))
        return tutti_fail(err, TUTTI_EINVAL, "'%u' causes of failures (at most %d)",
                          run->cause_count, TUTTI_FAILURE_CAUSES_MAX);
    for (uint32_t i = 0; i < run->cause_count; i++) {
        const struct tutti_failure_cause *c = &run->causes[i];

        if (!(c->mtbf_s > 0) || c->detect_ps < 0 || c->notice_ps < 0 || c->away_ps < 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "failures by '%s': times of less than nothing (a mean time between "
                              "them above 0, the others 0 or more)",
                              c->name);
    }
    return 0;
}

static int check(const struct tutti_long_run *run, struct tutti_err *err)
{
    const uint32_t host = run->host_devices > 0 ? run->host_devices : 1;
    const uint32_t replica = run->replica_devices > 0 ? run->replica_devices : 1;

    if (run->device_count == 0 || run->device_count % host != 0 || run->device_count % replica != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%u' devices of hosts of %u and replicas of %u (some of both, whole)",
                          run->device_count, host, replica);
    if (run->every_ps < 0 || run->step_ps < 0 || run->restart_ps < 0 ||
        run->restart_device_ps < 0 || run->hot_swap_ps < 0 || run->cold_swap_ps < 0)
        return tutti_fail(err, TUTTI_EINVAL, "a long run with times below 0 (0 or more)");
    if (!(run->wall_s >= 0) || !(run->work_s >= 0) || run->wall_s + run->work_s <= 0 ||
        run->wall_s + run->work_s > 1e10)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a long run of '%g' s with '%g' s of work (one of them above 0, and less "
                          "than 300 years)",
                          run->wall_s, run->work_s);
    if (run->storage_every > 1 && !run->async)
        return tutti_fail(err, TUTTI_EINVAL,
                          "one checkpoint in '%u' is written, and training waits for it (0 or 1: "
                          "each; more: written beside training)",
                          run->storage_every);
    if (run->least_devices > run->device_count)
        return tutti_fail(err, TUTTI_EINVAL, "at least '%u' devices (of %u)", run->least_devices,
                          run->device_count);
    return check_causes(run, err);
}

/* Hosts that replicas down to `least_devices` do without. */
static uint32_t missing_max(const struct tutti_run_times *t)
{
    const uint32_t replica = t->run.replica_devices > 0 ? t->run.replica_devices : 1;
    const uint64_t replicas = ((uint64_t)t->run.least_devices + replica - 1) / replica;
    const uint64_t hosts = (replicas * replica + t->host_devices - 1) / t->host_devices;

    return t->run.least_devices == 0 || hosts >= t->hosts ? 0 : t->hosts - (uint32_t)hosts;
}

static void set_rates(struct tutti_run_times *t)
{
    for (uint32_t i = 0; i < t->run.cause_count; i++) {
        const struct tutti_failure_cause *c = &t->run.causes[i];

        t->rate[i] = t->run.device_count / c->mtbf_s;
        t->rate_sum += t->rate[i];
        t->noticed[i] = c->notice_ps > 0 && seconds(c->notice_ps) >= t->save_s;
    }
}

int tutti_run_times_of(const struct tutti_long_run *run, struct tutti_run_times *ret,
                       struct tutti_err *err)
{
    struct tutti_run_times t = {.rate_sum = 0};
    double share, disk_s;
    int status = tutti_take("tutti_long_run", &t.run, sizeof(t.run), run,
                            TUTTI_BYTES_TO(struct tutti_long_run, seed), err);

    if (status == 0)
        status = check(&t.run, err);
    if (status < 0)
        return status;
    share = (double)t.run.state_bytes / t.run.device_count;
    disk_s = fmax(wire_s((double)t.run.state_bytes, t.run.save_bytes_per_s),
                  wire_s(share, t.run.device_save_bytes_per_s));
    t.copied_s = t.run.async ? wire_s(share, t.run.copy_bytes_per_s) : 0;
    t.stall_s = t.run.async ? t.copied_s : disk_s;
    t.write_s = t.run.async ? disk_s : 0;
    t.save_s = t.stall_s + t.write_s;
    t.load_s = disk_s;
    t.restart_s = seconds(t.run.restart_ps) + seconds(t.run.restart_device_ps) * t.run.device_count;
    t.level = t.run.storage_every > 1 ? t.run.storage_every : 1;
    t.host_devices = t.run.host_devices > 0 ? t.run.host_devices : 1;
    t.hosts = t.run.device_count / t.host_devices;
    t.step_s = seconds(t.run.step_ps);
    if (t.run.hot_spares > UINT32_MAX / 4 || t.run.cold_spares > UINT32_MAX / 4)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' and '%u' spares (fewer than 2^30)",
                          t.run.hot_spares, t.run.cold_spares);
    t.spares = t.run.hot_spares + t.run.cold_spares;
    t.missing_max = missing_max(&t);
    set_rates(&t);
    tutti_run_times_every(&t, seconds(t.run.every_ps));
    *ret = t;
    return 0;
}

void tutti_run_times_every(struct tutti_run_times *t, double every_s)
{
    const double least_s = t->write_s / t->level - t->stall_s;

    t->every_s = every_s > 0 && every_s < least_s ? least_s : every_s;
    if (t->every_s > 0 && t->step_s > 0) /* a hair less than whole is whole */
        t->every_s = fmax(1, ceil(t->every_s / t->step_s - 1e-6)) * t->step_s;
}

void tutti_run_recovery(const struct tutti_run_times *t, uint32_t cause, enum tutti_spare spare,
                        struct tutti_recovery *ret)
{
    const struct tutti_failure_cause *c = &t->run.causes[cause];
    const bool in_memory = t->run.async && c->keeps_memory && !t->noticed[cause];

    ret->part_s[0] = t->noticed[cause] || spare == TUTTI_SPARE_AWAITED ? 0 : seconds(c->detect_ps);
    ret->part_s[1] = spare == TUTTI_SPARE_HOT || spare == TUTTI_SPARE_AWAITED
                         ? seconds(t->run.hot_swap_ps)
                     : spare == TUTTI_SPARE_COLD ? seconds(t->run.cold_swap_ps)
                                                 : 0;
    ret->part_s[2] = t->restart_s + (in_memory ? t->copied_s : t->load_s);
}

enum tutti_spare tutti_run_spare(const struct tutti_run_times *t, uint32_t away)
{
    return away < t->run.hot_spares            ? TUTTI_SPARE_HOT
           : away < t->spares                  ? TUTTI_SPARE_COLD
           : away < t->spares + t->missing_max ? TUTTI_SPARE_MISSING
                                               : TUTTI_SPARE_AWAITED;
}

double tutti_run_pace(const struct tutti_run_times *t, uint32_t missing)
{
    const uint32_t replica = t->run.replica_devices > 0 ? t->run.replica_devices : 1;
    const uint64_t left = (uint64_t)(t->hosts - missing) * t->host_devices / replica;

    return (double)left / (t->run.device_count / replica);
}

void tutti_run_describe(const struct tutti_run_times *t, struct tutti_long_run_times *ret)
{
    double unknown = 0;

    for (uint32_t i = 0; i < t->run.cause_count; i++)
        unknown += t->noticed[i] ? 0 : t->rate[i];
    ret->mtbf_unknown_s = unknown > 0 ? 1 / unknown : 0;
    ret->mtbf_s = t->rate_sum > 0 ? 1 / t->rate_sum : 0;
    ret->every_ps = (tutti_ps)(t->every_s * 1e12);
    ret->stall_ps = (tutti_ps)(t->stall_s * 1e12);
    ret->write_ps = (tutti_ps)(t->write_s * 1e12);
}
