/* A machine measured, read, predicted with and told about; see local.h. */
#include "tools/local/local.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/cuda.h"
#include "runtime/cuda_work.h"
#include "runtime/nccl.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tools/cli/files.h"
#include "tools/cli/json.h"

/* ---- which machine, and when ----------------------------------------------------------------- */

/* The processor's name as Linux tells it, cut where it is too long; "" where it does not. */
static void read_model(char *ret, size_t bytes)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];

    ret[0] = '\0';
    while (file != NULL && ret[0] == '\0' && fgets(line, sizeof(line), file) != NULL) {
        const char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || colon == NULL)
            continue;
        colon += 1 + strspn(colon + 1, " ");
        (void)snprintf(ret, bytes, "%.*s", (int)strcspn(colon, "\n#"), colon);
    }
    if (file != NULL)
        fclose(file);
}

static void describe(const struct tutti_local_ask *ask, struct tutti_local *local)
{
    enum { OWN_CACHES = 4, OWN_CACHE_BYTES = 2 << 20 };
    long cache_bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    char host[40] = "";
    char model[48];
    time_t now = time(NULL);
    struct tm when;

    if (gethostname(host, sizeof(host) - 1) != 0 || strchr(host, '#') != NULL)
        host[0] = '\0';
    read_model(model, sizeof(model));
    (void)snprintf(local->machine, sizeof(local->machine), "%s%s%s", host,
                   host[0] != '\0' && model[0] != '\0' ? ", " : "", model);
    if (gmtime_r(&now, &when) != NULL)
        (void)strftime(local->date, sizeof(local->date), "%Y-%m-%d %H:%M UTC", &when);
    local->processor_count = ask->processor_count;
    if (ask->on_gpu && tutti_cuda_multiprocessors(&local->processor_count, NULL) < 0)
        local->processor_count = ask->processor_count;
    local->process_count = ask->process_count > 0 ? ask->process_count : 1;
    if (ask->on_gpu) {
        char name[TUTTI_NCCL_NAME_BYTES];
        bool by_nccl = strcmp(ask->backend->ops->name, "nccl") == 0;

        if ((by_nccl ? tutti_nccl_name(name, NULL) : tutti_cuda_name(name, NULL)) == 0)
            (void)snprintf(local->machine, sizeof(local->machine), "%.*s",
                           (int)sizeof(local->machine) - 1, name);
    }
    if (ask->backend != NULL)
        (void)snprintf(local->backend, sizeof(local->backend), "%s", ask->backend->ops->name);
    local->rank_count = ask->rank_count;
    /* As the backend does it: see runtime/exec/host. */
    local->past_cache_bytes =
        OWN_CACHES * (cache_bytes > 0 ? (uint64_t)cache_bytes : OWN_CACHE_BYTES);
}

/* A library may copy messages through the system, or once, straight from the sender's memory: MPI's
 * do not say. What fits better holds. */
static int fit_either(const struct tutti_local_ask *ask, struct tutti_local_points *points,
                      struct tutti_local *local, struct tutti_local_fitted *ret_fitted,
                      struct tutti_err *err)
{
    const struct tutti_local start = *local;
    struct tutti_local direct = start;
    struct tutti_local_fitted fitted;
    const struct tutti_backend_kind *kind =
        ask->backend == NULL ? NULL : tutti_backend_kind_find(ask->backend->ops->name);
    bool open = kind != NULL && kind->grouped && !kind->launched; /* the MPI may copy directly */
    int status = 0;

    direct.direct = true;
    if (open)
        status = tutti_local_fit(points, &direct, &fitted, err);
    if (status == 0)
        status = tutti_local_fit(points, local, ret_fitted, err);
    if (status < 0 || !open || fitted.median_abs_percent >= ret_fitted->median_abs_percent)
        return status;
    *local = start;
    local->direct = true;
    return tutti_local_fit(points, local, ret_fitted, err); /* for what is fitted of each point */
}

int tutti_local_calibrate(const struct tutti_local_ask *ask, struct tutti_local_points *ret_points,
                          struct tutti_local *ret, struct tutti_local_fitted *ret_fitted,
                          struct tutti_err *err)
{
    struct tutti_local local = tutti_local_guess();
    struct tutti_local_points points = {.count = 0};
    int status;

    describe(ask, &local);
    status = tutti_local_measure(ask, &points, err);
    local.apart_ns = points.apart_ns;
    if (status == 0)
        status = fit_either(ask, &points, &local, ret_fitted, err);
    if (status < 0) {
        tutti_local_points_close(&points);
        return status;
    }
    *ret_points = points;
    *ret = local;
    return 0;
}

int tutti_local_load(const char *path, const char *backend, struct tutti_local *ret,
                     struct tutti_err *err)
{
    struct tutti_local local;
    char *text = NULL;
    size_t bytes = 0;
    int status = tutti_file_read(path, &text, &bytes, err);

    if (status == 0)
        status = tutti_local_parse(path, text, bytes, &local, err);
    free(text);
    if (status < 0)
        return status;
    if (strcmp(local.backend, backend) != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s: it is of backend '%s' (one that 'calibrate -B %s' has written)",
                          path, local.backend, backend);
    *ret = local;
    return 0;
}

/* ---- predicting ------------------------------------------------------------------------------ */

static bool is_by_levels(const struct tutti_local *local)
{
    return strcmp(local->backend, "nccl") == 0;
}

void tutti_local_work_free(const struct tutti_local *local, struct tutti_cuda_work *work)
{
    if (is_by_levels(local))
        tutti_level_work_free(work);
    else
        tutti_cuda_work_free(work);
}

int tutti_local_open_play(const struct tutti_local *local, const struct tutti_schedule *schedule,
                          struct tutti_cuda_work **ret_work, struct tutti_local_play **ret,
                          struct tutti_err *err)
{
    struct tutti_cuda_work *work = NULL;
    int status;

    if (!tutti_local_has(local, TUTTI_LOCAL_BLOCK_LAUNCH))
        return tutti_local_play_open(schedule, local->processor_count, ret, err);
    status = is_by_levels(local) ? tutti_level_work_new(schedule, &work, err)
                                 : tutti_cuda_work_new(schedule, &work, err);
    if (status == 0 && !is_by_levels(local))
        tutti_cuda_work_fit(work, local->processor_count);
    if (status == 0)
        status = tutti_local_play_open_blocks(work, ret, err);
    if (status < 0) {
        tutti_local_work_free(local, work);
        return status;
    }
    *ret_work = work;
    return 0;
}

/* What a graph of levels takes beyond the launch of all lanes that a play is. */
static int64_t beyond_launch(const struct tutti_local *local, const struct tutti_cuda_work *work)
{
    bool graph = local->graph > 0 || (local->graph == 0 && work->graph_ps < 0);

    return graph && work->graph_ps < INT64_MAX ? work->graph_ps : 0;
}

int tutti_local_predict(const struct tutti_local *local, uint32_t rank_count,
                        const struct tutti_coll_params *params, const char *algorithm,
                        int64_t *ret_ps, struct tutti_err *err)
{
    struct tutti_shape flat = tutti_shape_flat(rank_count); /* as `run` lays it out */
    struct tutti_schedule *schedule = NULL;
    struct tutti_local_play *play = NULL;
    struct tutti_cuda_work *work = NULL;
    int status = tutti_coll_generate(algorithm, params, &flat, &schedule, err);

    if (status < 0)
        return status;
    status = tutti_local_open_play(local, schedule, &work, &play, err);
    if (status == 0)
        status = tutti_local_time(play, local, ret_ps, err);
    if (status == 0 && work != NULL)
        *ret_ps += beyond_launch(local, work);
    tutti_local_play_close(play);
    tutti_local_work_free(local, work);
    tutti_schedule_free(schedule);
    if (status == -TUTTI_ELACK) {
        *ret_ps = 0;
        return 0;
    }
    return status;
}

double tutti_local_null_latency_ps(const struct tutti_local *local)
{
    const struct tutti_local_value *v = local->values;
    double us = v[TUTTI_LOCAL_HOP].value;

    if (tutti_local_has(local, TUTTI_LOCAL_BLOCK_HOP))
        us = v[TUTTI_LOCAL_BLOCK_HOP].value + v[TUTTI_LOCAL_BLOCK_STEP].value;
    if (local->process_count > 1)
        us += 2 * v[TUTTI_LOCAL_CALL].value;
    return us * (double)TUTTI_PS_PER_US;
}

/* A message is read and written, on a GPU by all ranks at once; or sent and received, or received
 * alone, or lent. */
double tutti_local_null_bytes_per_s(const struct tutti_local *local)
{
    if (tutti_local_has(local, TUTTI_LOCAL_BLOCK_MEMORY))
        return 1e9 * local->values[TUTTI_LOCAL_BLOCK_MEMORY].value / 2 / local->rank_count;
    if (local->direct)
        return 1e9 * local->values[TUTTI_LOCAL_TAKE_FAR].value;
    if (tutti_local_has(local, TUTTI_LOCAL_LEND))
        return 1e9 / (1 / local->values[TUTTI_LOCAL_LEND].value +
                      1 / local->values[TUTTI_LOCAL_TAKE_LENT].value +
                      1 / local->values[TUTTI_LOCAL_TAKE_MEMORY].value);
    if (local->process_count > 1)
        return 1e9 / (1 / local->values[TUTTI_LOCAL_SEND_FAR].value +
                      1 / local->values[TUTTI_LOCAL_TAKE_FAR].value);
    return 1e9 / (1 / local->values[TUTTI_LOCAL_READ_SHARED].value +
                  1 / local->values[TUTTI_LOCAL_WRITE_SHARED].value);
}

/* ---- telling --------------------------------------------------------------------------------- */

void tutti_local_show(const struct tutti_local *local, const char *how, bool verbose, FILE *out)
{
    fprintf(out, "# machine:   %s, %" PRIu32 " processor%s; %s%s%s\n",
            local->machine[0] != '\0' ? local->machine : "without a name", local->processor_count,
            local->processor_count == 1 ? "" : "s", how, local->date[0] != '\0' ? ", " : "",
            local->date);
    if (!verbose)
        return;
    if (local->apart_ns > 0)
        fprintf(out,
                "#   processors %.0f ns apart meanwhile: from one's storing a word until the "
                "other sees it\n",
                local->apart_ns);
    if (local->direct)
        fputs("#   messages between processes are copied once, by who receives them\n", out);
    for (int p = 0; p < TUTTI_LOCAL_COUNT; p++) {
        const struct tutti_local_value *value = &local->values[p];

        if (!tutti_local_has(local, (enum tutti_local_parameter)p))
            continue;
        fprintf(out, "#   %-17s %10.4g", tutti_local_name((enum tutti_local_parameter)p),
                value->value);
        if (isfinite(value->low) && isfinite(value->high))
            fprintf(out, "  (%.3g to %.3g)", value->low, value->high);
        fprintf(out, "  %s%s\n", tutti_local_says((enum tutti_local_parameter)p),
                value->open ? "; the data leave it open" : "");
    }
}

static void sum_up_blocks(const struct tutti_local *local, const char *how, bool verbose, FILE *out)
{
    const struct tutti_local_value *v = local->values;

    fprintf(out,
            "# %s: a launch takes %.2f us, to hand a message on %.2f us, by lines %.2f; memory "
            "%.0f GB/s\n",
            how, v[TUTTI_LOCAL_BLOCK_LAUNCH].value, v[TUTTI_LOCAL_BLOCK_HOP].value,
            v[TUTTI_LOCAL_BLOCK_LINE].value, v[TUTTI_LOCAL_BLOCK_MEMORY].value);
    if (verbose)
        fprintf(out, "# predicted: the operations that the backend makes of the same schedule, on "
                     "blocks of these\n#   rates; no collective was measured for it\n");
}

void tutti_local_sum_up(const struct tutti_local *local, const char *how, bool verbose, FILE *out)
{
    const struct tutti_local_value *v = local->values;

    if (tutti_local_has(local, TUTTI_LOCAL_BLOCK_LAUNCH)) {
        sum_up_blocks(local, how, verbose, out);
        return;
    }
    fprintf(out, "# %s: to begin and end takes %.2f us, to hand a message on %.2f us\n", how,
            v[TUTTI_LOCAL_LAUNCH].value, v[TUTTI_LOCAL_HOP].value);
    if (!verbose)
        return;
    fprintf(out,
            "#   GB/s of a rank to read: own cache %.0f, another's %.1f, shared one %.1f, memory "
            "%.1f\n",
            v[TUTTI_LOCAL_READ_OWN].value, v[TUTTI_LOCAL_READ_OTHER].value,
            v[TUTTI_LOCAL_READ_SHARED].value, v[TUTTI_LOCAL_READ_MEMORY].value);
    if (tutti_local_has(local, TUTTI_LOCAL_LEND))
        fprintf(out,
                "#   to hand over %.1f to other processes, to receive %.1f, from memory %.1f, and "
                "%.1f us a call\n",
                v[TUTTI_LOCAL_LEND].value, v[TUTTI_LOCAL_TAKE_LENT].value,
                v[TUTTI_LOCAL_TAKE_MEMORY].value, v[TUTTI_LOCAL_CALL].value);
    else if (local->process_count > 1)
        fprintf(out,
                "#   to send %.1f, to receive %.1f from other processes, and %.1f us a piece\n",
                v[TUTTI_LOCAL_SEND_FAR].value, v[TUTTI_LOCAL_TAKE_FAR].value,
                v[TUTTI_LOCAL_CALL].value);
    fprintf(out, "#   and to write %.0f, %.1f, %.1f, %.1f, past the cache %.1f\n",
            v[TUTTI_LOCAL_WRITE_OWN].value, v[TUTTI_LOCAL_WRITE_OTHER].value,
            v[TUTTI_LOCAL_WRITE_SHARED].value, v[TUTTI_LOCAL_WRITE_MEMORY].value,
            v[TUTTI_LOCAL_COPY_PAST].value);
    fprintf(out, "# predicted: the same schedule played on a machine of these caches and rates; no "
                 "collective was measured for it\n");
}

void tutti_local_json(const struct tutti_local *local, struct tutti_json *json)
{
    tutti_json_open(json, "machine", '{');
    tutti_json_text(json, "name", local->machine);
    tutti_json_text(json, "date", local->date);
    tutti_json_text(json, "backend", local->backend);
    tutti_json_count(json, "processors", local->processor_count);
    tutti_json_count(json, "processes", local->process_count);
    tutti_json_count(json, "ranks", local->rank_count);
    tutti_json_count(json, "past_cache_bytes", local->past_cache_bytes);
    tutti_json_number(json, "apart_ns", local->apart_ns); /* 0: not known */
    tutti_json_open(json, "parameters", '[');
    for (int p = 0; p < TUTTI_LOCAL_COUNT; p++) {
        const struct tutti_local_value *value = &local->values[p];

        if (!tutti_local_has(local, (enum tutti_local_parameter)p))
            continue;
        tutti_json_open(json, NULL, '{');
        tutti_json_text(json, "name", tutti_local_name((enum tutti_local_parameter)p));
        tutti_json_number(json, "value", value->value);
        tutti_json_number(json, "low", value->low);
        tutti_json_number(json, "high", value->high);
        tutti_json_bool(json, "open", value->open);
        tutti_json_close(json);
    }
    tutti_json_close(json);
    tutti_json_close(json);
}
