/* What `predict` and `compare` are asked; see sweep.h. */
#include "tools/sweep/sweep.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/machine.h"
#include "tools/cli/shared_options.h"
#include "tools/sweep/spread.h"

static bool serves(const struct tutti_algorithm *algorithm, enum tutti_collective collective)
{
    return (algorithm->collectives & 1u << (unsigned)collective) != 0;
}

static int add_algorithm(struct tutti_sweep *sweep, const char *name, size_t bytes,
                         struct tutti_err *err)
{
    char *kept = sweep->algorithms[sweep->algorithm_count];
    const struct tutti_algorithm *found = NULL;

    if (bytes == 0)
        return tutti_fail(err, TUTTI_EINVAL, "a name is empty (NAME[,NAME])");
    if (bytes >= TUTTI_SWEEP_NAME_BYTES)
        bytes = TUTTI_SWEEP_NAME_BYTES - 1; /* longer than any: refused below */
    if (sweep->algorithm_count == TUTTI_SWEEP_ALGORITHMS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "too many names (at most %d)",
                          TUTTI_SWEEP_ALGORITHMS_MAX);
    memcpy(kept, name, bytes);
    kept[bytes] = '\0';
    for (uint32_t i = 0; i < sweep->algorithm_count; i++) {
        if (strcmp(sweep->algorithms[i], kept) == 0)
            return tutti_fail(err, TUTTI_EINVAL, "'%s' is named twice (once)", kept);
    }
    sweep->algorithm_count++;
    if (tutti_algorithm_is_nccl(kept))
        return 0; /* what it names is found out with the machine */
    if (strcmp(kept, "all") == 0 || strcmp(kept, "auto") == 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' stands among others (alone)", kept);
    return tutti_algorithm_find_for(kept, &sweep->ask.params, &found, err);
}

/* "ring,torus", "auto" or "all". */
static int read_algorithms(struct tutti_sweep *sweep, const char *text, struct tutti_err *err)
{
    const struct tutti_algorithm_set *added = sweep->own.set;
    const struct tutti_algorithm *known;
    int status = 0;

    sweep->best = strcmp(text, "auto") == 0;
    sweep->all = sweep->best || strcmp(text, "all") == 0;
    for (size_t i = 0; sweep->all && (known = tutti_algorithm_at(added, i)) != NULL; i++) {
        if (status == 0 && serves(known, sweep->ask.params.collective))
            status = add_algorithm(sweep, known->name, strlen(known->name), err);
    }
    for (const char *p = text; !sweep->all && status == 0; p++) {
        size_t bytes = strcspn(p, ",");

        status = add_algorithm(sweep, p, bytes, err);
        p += bytes;
        if (*p == '\0')
            break;
    }
    if (status < 0)
        return tutti_wrap(err, status, "option '-a'");
    assert(sweep->algorithm_count > 0);
    return 0;
}

static int read_params(const struct tutti_args *args, const struct tutti_own *own,
                       struct tutti_coll_params *params, struct tutti_err *err)
{
    int status = tutti_shared_params(args, params, err);

    if (status == 0)
        status = tutti_own_params(args, own, params, err);
    if (status < 0)
        return status;
    params->channel_count = (uint32_t)tutti_args_number(args, "channels");
    params->chunk_bytes = tutti_args_number(args, "chunk");
    if (tutti_args_given(args, "chunk") && params->chunk_bytes == 0)
        return tutti_fail(err, TUTTI_EINVAL, "option '--chunk': a grain of '0' bytes (1 or more)");
    params->slice_count = (uint32_t)tutti_args_number(args, "slices");
    params->slot_count = (uint32_t)tutti_args_number(args, "slots");
    return 0;
}

const char *tutti_sweep_protocol(const struct tutti_topo *topo, const char *asked)
{
    return strcmp(asked, "auto") == 0 ? tutti_predict_protocol(topo) : asked;
}

/* Is NCCL's own choice among what is asked for? */
static bool runs_nccl(const struct tutti_sweep *sweep)
{
    for (uint32_t i = 0; i < sweep->algorithm_count; i++) {
        if (tutti_algorithm_is_nccl(sweep->algorithms[i]))
            return true;
    }
    return false;
}

static int make_points(struct tutti_sweep *sweep, struct tutti_err *err)
{
    const struct tutti_coll_params *params = &sweep->ask.params;
    /* Processes share out the points of a size; and what is the fastest on a perturbed machine need
     * not be so on the unperturbed one. */
    bool fastest_alone = sweep->best && sweep->job->count == 1 && sweep->perturb.item_count == 0;

    if (params->collective == TUTTI_BARRIER) { /* one size: none */
        sweep->sizes.min_bytes = 0;
        sweep->sizes.max_bytes = 0;
        sweep->sizes.count = 1;
    }
    sweep->point_count = (size_t)sweep->sizes.count * sweep->algorithm_count;
    sweep->points = calloc(sweep->point_count, sizeof(*sweep->points));
    if (sweep->points == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < sweep->point_count; i++) {
        uint32_t size_index = (uint32_t)(i / sweep->algorithm_count);
        uint64_t bytes = tutti_sizes_at(&sweep->sizes, size_index);

        if (fastest_alone && (!sweep->library || i % sweep->algorithm_count > 0))
            sweep->points[i].rivals = size_index + 1;
        sweep->points[i].algorithm = sweep->algorithms[i % sweep->algorithm_count];
        sweep->points[i].count =
            tutti_own_count(&sweep->own, params, bytes, sweep->topo->rank_count);
    }
    return 0;
}

static int read_ask(const struct tutti_args *args, struct tutti_sweep *sweep, struct tutti_err *err)
{
    struct tutti_ask *ask = &sweep->ask;
    int status = tutti_model_find(tutti_args_text(args, "model"), &ask->model, err);

    ask->size = sizeof(*ask);
    if (status == 0)
        status = tutti_own_open(args, true, &sweep->own, err);
    if (status == 0)
        status = read_params(args, &sweep->own, &ask->params, err);
    if (status == 0)
        status = read_algorithms(sweep, sweep->own.algorithms, err);
    if (status == 0)
        status = tutti_own_sizes(args, &sweep->own, &sweep->sizes, err);
    if (status == 0)
        status = tutti_perturb_read(args, true, &sweep->perturb, err);
    ask->seed = tutti_args_number(args, "seed");
    ask->jitter = tutti_args_real(args, "jitter");
    ask->reduce_bytes_per_s = tutti_args_number(args, "reduce-rate");
    ask->force = tutti_args_flag(args, "force");
    ask->empty = true; /* sizes of less than an element are asked for, too */
    if (sweep->all)
        ask->step_count_max = tutti_args_number(args, "steps-max");
    ask->fold = tutti_args_text(args, "fold");
    sweep->thread_count = (uint32_t)tutti_args_number(args, "jobs");
    return status;
}

/* Where it is known what NCCL or RCCL would see of the hosts, all algorithms begin with "nccl". */
static int add_library(struct tutti_sweep *sweep, struct tutti_err *err)
{
    if (!sweep->all || sweep->topo->hardware == NULL)
        return 0;
    if (sweep->algorithm_count == TUTTI_SWEEP_ALGORITHMS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "too many algorithms (at most %d)",
                          TUTTI_SWEEP_ALGORITHMS_MAX);
    memmove(sweep->algorithms[1], sweep->algorithms[0],
            sweep->algorithm_count * sizeof(sweep->algorithms[0]));
    (void)snprintf(sweep->algorithms[0], sizeof(sweep->algorithms[0]), "nccl");
    sweep->algorithm_count++;
    sweep->library = true;
    return 0;
}

static int read_nccl(const struct tutti_args *args, struct tutti_sweep *sweep,
                     struct tutti_sink *sink, struct tutti_err *err)
{
    int status = add_library(sweep, err);

    if (status == 0)
        status = tutti_nccl_options_read(args, runs_nccl(sweep), &sweep->nccl, sink, err);
    sweep->ask.as_nccl = sweep->nccl.version;
    sweep->ask.env = sweep->nccl.env;
    return status;
}

int tutti_sweep_open(const struct tutti_args *args, struct tutti_sweep *ret,
                     struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_sweep sweep = {.job = args->job};
    int status = read_ask(args, &sweep, err);

    if (status == 0)
        status = tutti_machine_load(tutti_args_operand(args, 0),
                                    (uint32_t)tutti_args_number(args, "nodes"), &sweep.topo, err);
    if (status == 0)
        status = read_nccl(args, &sweep, sink, err);
    if (status == 0) {
        sweep.ask.topo = sweep.topo;
        sweep.ask.protocol = tutti_sweep_protocol(sweep.topo, tutti_args_text(args, "protocol"));
        status = tutti_own_fits_machine(&sweep.own, sweep.topo, err);
    }
    if (status == 0) {
        status = tutti_perturb_check(sweep.topo, &sweep.perturb, err);
        if (status < 0)
            status = tutti_wrap(err, status, "option '--perturb'");
    }
    if (status == 0)
        status = tutti_calib_choose(args, sweep.topo, sweep.ask.protocol, &sweep.calib, err);
    *ret = sweep;
    ret->ask.protocols = ret->calib.made.protocols;
    if (status == 0) /* the points name algorithms by their place in *ret */
        status = make_points(ret, err);
    status = tutti_job_agree(args->job, status, err);
    if (status == 0)
        status = tutti_spread_check(args->job, &ret->ask, &ret->perturb, ret->points,
                                    ret->point_count, err);
    if (status < 0)
        tutti_sweep_close(ret);
    return status;
}

void tutti_sweep_close(struct tutti_sweep *sweep)
{
    tutti_topo_free(sweep->topo);
    free(sweep->points);
    free(sweep->calm);
    free(sweep->start_ps);
    tutti_nccl_options_done(&sweep->nccl);
    tutti_own_done(&sweep->own);
    sweep->topo = NULL;
    sweep->points = sweep->calm = NULL;
    sweep->start_ps = NULL;
    sweep->point_count = 0;
}

const struct tutti_point *tutti_sweep_best(const struct tutti_sweep *sweep, uint32_t size_index)
{
    const struct tutti_point *points = &sweep->points[(size_t)size_index * sweep->algorithm_count];
    const struct tutti_point *best = NULL;

    for (uint32_t i = sweep->library && sweep->best ? 1 : 0; i < sweep->algorithm_count; i++) {
        if (points[i].status == 0 &&
            (best == NULL || points[i].answer.time_ps < best->answer.time_ps))
            best = &points[i];
    }
    return best;
}

const struct tutti_point *tutti_sweep_library(const struct tutti_sweep *sweep, uint32_t size_index)
{
    const struct tutti_point *point = &sweep->points[(size_t)size_index * sweep->algorithm_count];

    return sweep->library && point->status == 0 ? point : NULL;
}

/* A failure that leaves an algorithm out of `-a all`: it does not fit, or is too large to hold or
 * to simulate. */
static bool may_be_left_out(const struct tutti_sweep *sweep, int status)
{
    return sweep->all &&
           (status == -TUTTI_EINVAL || status == -TUTTI_ELACK || status == -TUTTI_ETIME);
}

bool tutti_sweep_may_be_forced(const struct tutti_point *point)
{
    return point->status == -TUTTI_ETIME ||
           (point->status == -TUTTI_ELACK &&
            strstr(point->err.text, "too large for this ") != NULL);
}

/* Is there, among the points [first, end) of one size, a failure that ends the sweep? */
static int failure_of(const struct tutti_sweep *sweep, size_t first, size_t end,
                      struct tutti_err *err)
{
    const struct tutti_point *failed = NULL;
    size_t left = 0;
    bool forced;

    for (size_t i = first; i < end; i++) {
        const struct tutti_point *point = &sweep->points[i];

        left += point->status == 0;
        if (point->status < 0 && !may_be_left_out(sweep, point->status))
            failed = failed == NULL ? point : failed;
    }
    if (failed == NULL && left == 0)
        failed = &sweep->points[first];
    if (failed == NULL)
        return 0;
    forced = tutti_sweep_may_be_forced(failed);
    /* Too much to simulate is what this machine lacks, be it time or memory. */
    return tutti_fail(err, forced ? TUTTI_ELACK : (enum tutti_status) - failed->status, "%s%s",
                      failed->err.text, forced ? " (--force runs it)" : "");
}

/* The bound of all points; where there is none, each point says what is wrong. */
static int find_law(struct tutti_sweep *sweep, struct tutti_err *err)
{
    const struct tutti_coll_params *params = &sweep->ask.params;
    int status =
        tutti_topo_bound_law(sweep->topo, params->collective, params->root, &sweep->law, NULL);

    sweep->ask.bound_law = status == 0 ? &sweep->law : NULL;
    return status == -TUTTI_ENOMEM ? tutti_nomem(err) : 0;
}

static int run_points(struct tutti_sweep *sweep, const char *command, struct tutti_sink *sink,
                      struct tutti_err *err)
{
    /* The smallest size first: what does not fit is said at once, not after the large ones. */
    size_t first = sweep->algorithm_count;
    int status = tutti_spread_predict(sweep->job, &sweep->ask, command, sweep->thread_count,
                                      sweep->points, first, sink, err);

    if (status == 0)
        status = failure_of(sweep, 0, first, err);
    if (status == 0)
        status = tutti_spread_predict(sweep->job, &sweep->ask, command, sweep->thread_count,
                                      sweep->points + first, sweep->point_count - first, sink, err);
    for (size_t i = first; status == 0 && i < sweep->point_count; i += first)
        status = failure_of(sweep, i, i + first, err);
    return status;
}

/* Predicts the points on the machine as it should be and keeps them: times alone, no bounds. */
static int run_calm(struct tutti_sweep *sweep, const char *command, struct tutti_sink *sink,
                    struct tutti_err *err)
{
    int status;

    sweep->law = tutti_bound_law_none(sweep->topo);
    sweep->ask.bound_law = &sweep->law;
    status = run_points(sweep, command, sink, err);
    if (status < 0)
        return status;
    sweep->calm = sweep->points;
    sweep->points = NULL;
    return make_points(sweep, err);
}

static int perturb(struct tutti_sweep *sweep, struct tutti_err *err)
{
    int status = tutti_perturb_machine(sweep->topo, &sweep->perturb, sweep->ask.seed, err);

    if (status == 0)
        status = tutti_perturb_starts(&sweep->perturb, sweep->ask.seed, sweep->topo->rank_count,
                                      &sweep->start_ps, err);
    sweep->ask.start_ps = sweep->start_ps;
    return status;
}

int tutti_sweep_run(struct tutti_sweep *sweep, const char *command, struct tutti_sink *sink,
                    struct tutti_err *err)
{
    int status = 0;

    if (sweep->perturb.item_count > 0) {
        status = run_calm(sweep, command, sink, err);
        if (status == 0)
            status = perturb(sweep, err);
    }
    if (status == 0)
        status = find_law(sweep, err);
    status = tutti_job_agree(sweep->job, status, err);
    return status < 0 ? status : run_points(sweep, command, sink, err);
}

static const struct tutti_point *calm_of(const struct tutti_sweep *sweep,
                                         const struct tutti_point *point)
{
    const struct tutti_point *calm =
        sweep->calm != NULL ? &sweep->calm[point - sweep->points] : NULL;

    return calm != NULL && calm->status == 0 ? calm : NULL;
}

double tutti_sweep_calm_us(const struct tutti_sweep *sweep, const struct tutti_point *point)
{
    const struct tutti_point *calm = calm_of(sweep, point);

    return calm != NULL ? (double)calm->answer.time_ps / (double)TUTTI_PS_PER_US : NAN;
}

double tutti_sweep_times_calm(const struct tutti_sweep *sweep, const struct tutti_point *point)
{
    const struct tutti_point *calm = calm_of(sweep, point);

    if (calm == NULL || calm->answer.time_ps == 0)
        return NAN;
    return (double)point->answer.time_ps / (double)calm->answer.time_ps;
}
