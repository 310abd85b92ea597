/* Plays the rows of a real run, size by size and algorithm by algorithm; see run.h. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/cuda.h"
#include "runtime/group.h"
#include "runtime/mpi.h"
#include "runtime/nccl.h"
#include "runtime/status.h"
#include "runtime/threads.h"
#include "sim/predict.h"
#include "tools/cli/progress.h"
#include "tools/cli/shared_options.h"
#include "tools/local/local.h"
#include "tools/run/run.h"
#include "tools/run/run_group.h"

uint32_t tutti_run_processors(void)
{
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 1)
        return 1;
    return (uint32_t)CPU_COUNT(&allowed);
}

int tutti_run_add(struct tutti_run_rows *rows, const struct tutti_run_row *row)
{
    if (rows->row_count == rows->row_capacity) {
        size_t capacity = rows->row_capacity == 0 ? 32 : 2 * rows->row_capacity;
        struct tutti_run_row *more = realloc(rows->rows, capacity * sizeof(*more));

        if (more == NULL)
            return -TUTTI_ENOMEM;
        rows->rows = more;
        rows->row_capacity = capacity;
    }
    rows->rows[rows->row_count++] = *row;
    rows->wrong_count +=
        row->performed.out_of_place.wrong_count + row->performed.in_place.wrong_count;
    if (row->performed.why_not[0] != '\0' && rows->apart_count++ == 0)
        rows->apart_first = rows->row_count - 1;
    return 0;
}

void tutti_run_rows_done(struct tutti_run_rows *rows)
{
    free(rows->rows);
    *rows = (struct tutti_run_rows){0};
}

void tutti_run_note_left_out(struct tutti_run_rows *rows, const struct tutti_answer *answer)
{
    uint32_t count = rows->left_out.count;

    if (count == 0) {
        rows->left_out = answer->left_out;
        rows->left_out_bytes = answer->bytes;
    }
    rows->left_out.count = count + answer->left_out.count;
}

void tutti_run_print_left_out(const struct tutti_run_rows *rows, FILE *out)
{
    const struct tutti_left_out *left_out = &rows->left_out;
    char size[TUTTI_UNIT_TEXT_BYTES];

    if (left_out->count == 0)
        return;
    fprintf(out, "# auto left out: %s at %s", left_out->algorithm,
            tutti_print_size(rows->left_out_bytes, size));
    if (left_out->count > 1)
        fprintf(out, " and %" PRIu32 " more", left_out->count - 1);
    fprintf(out, ": %s%s\n", left_out->why,
            strstr(left_out->why, "steps to simulate") != NULL
                ? " (--steps-max raises the limit; an algorithm that -a names has none)"
                : "");
}

void tutti_run_json_left_out(const struct tutti_run_rows *rows, struct tutti_json *json)
{
    const struct tutti_left_out *left_out = &rows->left_out;

    if (left_out->count == 0)
        return;
    tutti_json_open(json, "auto_left_out", '{');
    tutti_json_count(json, "count", left_out->count);
    tutti_json_text(json, "algorithm", left_out->algorithm);
    tutti_json_count(json, "bytes", rows->left_out_bytes);
    tutti_json_text(json, "why", left_out->why);
    tutti_json_close(json);
}

void tutti_run_print_apart(const struct tutti_run_rows *rows, FILE *out)
{
    const struct tutti_run_row *first = &rows->rows[rows->apart_first];
    char size[TUTTI_UNIT_TEXT_BYTES];

    if (rows->apart_count > 0)
        fprintf(out, "# not in place: %" PRIu32 " of %zu rows; %s at %s: %s\n", rows->apart_count,
                rows->row_count, first->performed.algorithm,
                tutti_print_size(first->performed.bytes, size), first->performed.why_not);
}

void tutti_run_json_apart(const struct tutti_run_rows *rows, struct tutti_json *json)
{
    const struct tutti_run_row *first = &rows->rows[rows->apart_first];

    if (rows->apart_count == 0)
        return;
    tutti_json_open(json, "not_in_place", '{');
    tutti_json_count(json, "rows", rows->apart_count);
    tutti_json_text(json, "algorithm", first->performed.algorithm);
    tutti_json_count(json, "bytes", first->performed.bytes);
    tutti_json_text(json, "why", first->performed.why_not);
    tutti_json_close(json);
}

void tutti_run_show(const char *command, const char *what, const char *detail,
                    struct tutti_sink *sink)
{
    tutti_progress_show("tutti", command, what, detail, sink);
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Plays and predicts a row as the machine is then; where it moved meanwhile the row is played
 * again, unless what happens in it is recorded. */
static int perform_beside(const struct tutti_run_command *run, const struct tutti_perform *perform,
                          const char *algorithm, struct tutti_run_row *row, struct tutti_err *err)
{
    enum { TRIES = 4 };
    struct tutti_local_beside *beside = run->beside;
    int status = 0;

    row->moved = true;
    for (int i = 0; i < (perform->record == NULL ? TRIES : 1) && row->moved && status == 0; i++) {
        double before_ns = 0;
        double after_ns = 0;

        status = tutti_local_look(&beside->ask, &before_ns, err);
        if (status == 0)
            status = tutti_local_beside_follow(beside, before_ns, err);
        if (status == 0)
            status = tutti_perform(perform, algorithm, &row->performed, err);
        if (status == 0)
            status = tutti_local_look(&beside->ask, &after_ns, err);
        row->apart_ns = (before_ns + after_ns) / 2;
        row->moved = tutti_local_moved(before_ns, after_ns) ||
                     tutti_local_moved(after_ns, beside->now.apart_ns);
    }
    if (status == 0)
        status = tutti_local_predict(&beside->calibrated, run->rank_count, &perform->params,
                                     algorithm, &row->calibrated_ps, err);
    if (status == 0)
        status = tutti_local_predict(&beside->now, run->rank_count, &perform->params, algorithm,
                                     &row->predicted_ps, err);
    return status;
}

int tutti_run_size(const struct tutti_run_command *run, struct tutti_perform *perform,
                   const char *command, const struct tutti_local *local,
                   struct tutti_run_rows *rows, struct tutti_sink *sink, struct tutti_err *err)
{
    uint64_t bytes = tutti_collective_bytes(perform->params.collective, perform->params.count,
                                            perform->params.dtype, run->rank_count);
    char size[TUTTI_UNIT_TEXT_BYTES];
    size_t before = rows->row_count;
    int status = tutti_shared_check_root(perform->params.collective, perform->params.root,
                                         run->rank_count, err);

    for (size_t i = 0; status == 0 && run->algorithms[i] != NULL; i++) {
        struct tutti_run_row row = {.count = perform->params.count,
                                    .kind = {perform->params.dtype, perform->params.op}};
        const char *algorithm = run->algorithms[i];

        tutti_run_show(command, algorithm, tutti_print_size(bytes, size), sink);
        if (strcmp(algorithm, "auto") == 0)
            status = tutti_perform_find_best(perform, &algorithm, err);
        if (status == 0 && run->beside != NULL)
            status = perform_beside(run, perform, algorithm, &row, err);
        else if (status == 0)
            status = tutti_perform(perform, algorithm, &row.performed, err);
        if (status == -TUTTI_EINVAL && run->all) { /* does not fit this many ranks */
            status = 0;
            continue;
        }
        if (status == 0 && local != NULL && run->beside == NULL)
            status = tutti_local_predict(local, run->rank_count, &perform->params, algorithm,
                                         &row.predicted_ps, err);
        if (status == 0 && tutti_run_add(rows, &row) < 0)
            status = tutti_nomem(err);
        if (status < 0)
            return status;
    }
    if (status == 0 && rows->row_count == before)
        return tutti_fail(err, TUTTI_EINVAL, "no algorithm for %s fits %" PRIu32 " ranks",
                          tutti_collective_name(perform->params.collective), run->rank_count);
    return status;
}

/* Measured with buffers up to about the size of the largest asked for, and not so large that it
 * takes long. */
struct tutti_local_ask tutti_run_local_ask(const struct tutti_run_command *run,
                                           const struct tutti_run_group *with)
{
    static const uint64_t least = 192 << 10, most = 48 << 20;
    uint64_t bytes = tutti_sizes_at(&run->sizes, run->sizes.count - 1);

    return (struct tutti_local_ask){
        .rank_count = run->rank_count,
        .processor_count = tutti_run_processors(),
        .pin = run->pin,
        .dtype = run->perform.params.dtype,
        .op = run->perform.params.op,
        .deadline_ps = run->perform.deadline_ps,
        .seed = run->perform.seed,
        .brief = true,
        .backend = with != NULL ? with->backend : NULL,
        .process_count = with != NULL ? with->group->count : 1,
        .group = with != NULL ? with->group : NULL,
        .on_gpu = run->backend->on_gpu,
        .bytes_max = bytes < least  ? least
                     : bytes > most ? most
                                    : bytes,
    };
}

/* As struct tutti_local has it. */
static int graph_of(const struct tutti_run_command *run)
{
    return run->graph == TUTTI_CUDA_GRAPH_ALWAYS                     ? 1
           : run->persistent || run->graph == TUTTI_CUDA_GRAPH_NEVER ? -1
                                                                     : 0;
}

int tutti_run_local(const struct tutti_run_command *run, const struct tutti_run_group *with,
                    const char *path, const char *command, struct tutti_local *ret,
                    struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_local_ask ask = tutti_run_local_ask(run, with);
    struct tutti_local_points points = {.count = 0};
    struct tutti_backend *own = NULL;
    struct tutti_local_fitted fitted;
    int status;

    if (path != NULL && (strcmp(path, "builtin") == 0 || strcmp(path, "none") == 0))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--calib': '%s' is for protocols (with -B a file that 'calibrate "
                          "-B' has written)",
                          path);
    if (path != NULL) {
        status = tutti_local_load(path, run->backend->name, ret, err);
        ret->process_count = ask.process_count; /* of which each costs what it did there */
        ret->graph = graph_of(run);
        if (status < 0)
            status = tutti_wrap(err, status, "option '--calib'");
        return tutti_run_group_agree(with, status, run->perform.deadline_ps, err);
    }
    tutti_run_show(command, "measuring", "this machine", sink);
    status = ask.on_gpu && with == NULL ? tutti_run_open_measuring(run, &own, err) : 0;
    ask.backend = own != NULL ? own : ask.backend;
    if (status == 0)
        status = tutti_local_calibrate(&ask, &points, ret, &fitted, err);
    ret->graph = graph_of(run);
    tutti_backend_close(own);
    tutti_run_show(command, NULL, NULL, sink);
    tutti_local_points_close(&points);
    return status;
}

void tutti_run_print_place(const struct tutti_run_command *run, const char *gpu, FILE *out)
{
    uint32_t processors = tutti_run_processors();

    if (run->places[0] != '\0')
        fprintf(out, " by %s\n# %s\n", gpu, run->places);
    else if (run->backend->on_gpu)
        fprintf(out, " %s%s\n", run->backend->alone ? "by " : "on one GPU: ", gpu);
    else
        fprintf(out, " as thread%s on %" PRIu32 " processor%s%s\n", run->rank_count == 1 ? "" : "s",
                processors, processors == 1 ? "" : "s",
                run->rank_count > processors ? ", which they share"
                : run->pin                   ? ", one each"
                                             : "");
}

/* The backend, of a process by itself. */
int tutti_run_open_alone(const struct tutti_run_command *run, struct tutti_backend **ret,
                         struct tutti_err *err)
{
    struct tutti_threads_opts opts = {.size = sizeof(struct tutti_threads_opts), .pin = run->pin};
    struct tutti_cuda_opts on_gpu = {.size = sizeof(struct tutti_cuda_opts),
                                     .persistent = run->persistent,
                                     .graph = run->graph,
                                     .gpu_count = run->gpu_count,
                                     .staged = run->no_peers,
                                     .streams = run->streams};
    struct tutti_nccl_opts by_nccl = {.size = sizeof(by_nccl), .streams = run->streams};

    return run->backend->alone    ? tutti_nccl_open(&by_nccl, ret, err)
           : run->backend->on_gpu ? tutti_cuda_open(&on_gpu, ret, err)
                                  : tutti_threads_open(&opts, ret, err);
}

int tutti_run_open_measuring(const struct tutti_run_command *run, struct tutti_backend **ret,
                             struct tutti_err *err)
{
    struct tutti_run_command lanes = *run;

    lanes.graph = TUTTI_CUDA_GRAPH_NEVER;
    return tutti_run_open_alone(&lanes, ret, err);
}

static int open_library(const struct tutti_run_command *run, struct tutti_group *group,
                        struct tutti_backend **ret, struct tutti_err *err)
{
    const struct tutti_nccl_opts opts = {.size = sizeof(opts), .group = group, .native = true};

    if (*ret != NULL)
        return 0;
    return run->backend->on_gpu ? tutti_nccl_open(&opts, ret, err)
                                : tutti_mpi_library_open(group, ret, err);
}

/* With --library: the same contract by the library's own collective, as another row, after those
 * of a size. *library: opened when it is first wanted, and the caller's to close. */
static int add_library(const struct tutti_run_command *run, struct tutti_perform perform,
                       struct tutti_backend **library, struct tutti_run_rows *rows,
                       struct tutti_err *err)
{
    struct tutti_run_row row = {.count = perform.params.count,
                                .kind = {perform.params.dtype, perform.params.op}};
    /* The schedule that any algorithm writes names the contract. */
    const char *algorithm = rows->rows[rows->row_count - 1].performed.algorithm;
    const struct tutti_contract contract = {.collective = perform.params.collective,
                                            .dtype = perform.params.dtype,
                                            .op = perform.params.op,
                                            .root = perform.params.root,
                                            .count = perform.params.count};
    int status = open_library(run, perform.group, library, err);

    if (status < 0)
        return status;
    perform.backend = *library;
    perform.record = NULL;
    perform.by_contract = true;
    perform.one_address = !run->backend->on_gpu; /* MPI_IN_PLACE */
    status = tutti_perform(&perform, algorithm, &row.performed, err);
    if (status == 0 && run->backend->on_gpu)
        status = tutti_nccl_estimate(*library, &contract, &row.estimate_ps, err);
    row.performed.algorithm = "library";
    if (status == 0 && tutti_run_add(rows, &row) < 0)
        status = tutti_nomem(err);
    return status;
}

/* A GPU is busy only with lanes enough: as many as the size is worth, if not asked otherwise. */
static uint32_t channels_for(const struct tutti_run_command *run, uint64_t count)
{
    const struct tutti_coll_params *params = &run->perform.params;

    if (!run->backend->on_gpu || run->backend->alone || params->channel_count != 0)
        return params->channel_count;
    return tutti_cuda_channels(
        run->rank_count,
        tutti_collective_bytes(params->collective, count, params->dtype, run->rank_count));
}

/* All sizes of the kind that run->perform.params has. */
static int sweep_sizes(struct tutti_run_command *run, struct tutti_perform *perform, bool last,
                       const char *command, const struct tutti_local *local,
                       struct tutti_backend **library, struct tutti_run_rows *rows,
                       struct tutti_sink *sink, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; status == 0 && i < run->sizes.count; i++) {
        perform->params.count = tutti_run_count(run, i);
        perform->params.channel_count = channels_for(run, perform->params.count);
        perform->record = last && i + 1 == run->sizes.count ? run->record : NULL;
        status = tutti_run_size(run, perform, command, local, rows, sink, err);
        if (status == 0 && run->library)
            status = add_library(run, *perform, library, rows, err);
    }
    return status;
}

int tutti_run_sweep(struct tutti_run_command *run, struct tutti_perform *perform,
                    const char *command, const struct tutti_local *local,
                    struct tutti_run_rows *rows, struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_coll_params *params = &run->perform.params;
    struct tutti_backend *library = NULL;
    int status = 0;

    for (uint32_t k = 0; status == 0 && k < run->kind_count; k++) {
        params->dtype = perform->params.dtype = run->kinds[k].dtype;
        params->op = perform->params.op = run->kinds[k].op;
        status = sweep_sizes(run, perform, k + 1 == run->kind_count, command, local, &library, rows,
                             sink, err);
    }
    tutti_run_show(command, NULL, NULL, sink);
    tutti_backend_close(library);
    return status;
}

int tutti_run_alone(struct tutti_run_command *run, const char *command,
                    const struct tutti_local *local, struct tutti_run_rows *ret,
                    struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_shape shape = tutti_shape_flat(run->rank_count);
    struct tutti_perform perform = run->perform;
    struct tutti_run_rows rows = {0};
    int status = tutti_run_open_alone(run, &perform.backend, err);

    if (status < 0)
        return status;
    if (run->backend->on_gpu && !run->backend->alone)
        status = tutti_cuda_places(perform.backend, run->rank_count, run->places, err);
    perform.shape = &shape;
    status = tutti_run_sweep(run, &perform, command, local, &rows, sink, err);
    tutti_backend_close(perform.backend);
    if (status < 0)
        tutti_run_rows_done(&rows);
    else
        *ret = rows;
    return status;
}

/* ---- sim ------------------------------------------------------------------------------------- */

/* The prediction tells algorithm and protocol; then the same schedule is played with data. */
static int play_predicted(const struct tutti_run_command *run, struct tutti_ask *ask, bool last,
                          struct tutti_run_row *row, struct tutti_run_rows *rows,
                          struct tutti_err *err)
{
    struct tutti_perform perform = run->perform;
    const struct tutti_protocol *protocol = NULL;
    struct tutti_answer answer;
    int status = tutti_predict(ask, &answer, err);

    if (status == 0)
        status = tutti_ask_protocol(ask, answer.protocol, &protocol, err);
    if (status == 0) {
        struct tutti_sim_opts opts = {
            .size = sizeof(struct tutti_sim_opts),
            .topo = ask->topo,
            .model = ask->model,
            .protocol = protocol,
            .seed = ask->seed,
            .jitter = ask->jitter,
            .reduce_bytes_per_s = ask->reduce_bytes_per_s,
            .carry = perform.carry,
        };

        status = tutti_sim_open(&opts, &perform.backend, err);
    }
    if (status < 0)
        return status;
    row->count = ask->params.count;
    row->kind = run->kinds[0];
    row->protocol = answer.protocol;
    tutti_run_note_left_out(rows, &answer);
    perform.shape = &ask->topo->shape;
    perform.params = ask->params;
    perform.predicted = ask;
    perform.record = last ? run->record : NULL;
    status = tutti_perform(&perform, answer.algorithm, &row->performed, err);
    tutti_backend_close(perform.backend);
    return status;
}

int tutti_run_sim(struct tutti_run_command *run, const struct tutti_ask *ask, const char *command,
                  struct tutti_run_rows *ret, struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_run_rows rows = {0};
    struct tutti_ask one = *ask;
    char size[TUTTI_UNIT_TEXT_BYTES];
    int status = 0;

    one.params = run->perform.params;
    for (uint32_t i = 0; status == 0 && i < run->sizes.count; i++) {
        one.params.count = tutti_run_count(run, i);
        for (size_t k = 0; status == 0 && run->algorithms[k] != NULL; k++) {
            struct tutti_run_row row = {0};

            one.algorithm = run->algorithms[k];
            tutti_run_show(command, one.algorithm,
                           tutti_print_size(tutti_sizes_at(&run->sizes, i), size), sink);
            status = play_predicted(run, &one, i + 1 == run->sizes.count, &row, &rows, err);
            if (status == -TUTTI_EINVAL && run->all)
                status = 0; /* does not fit this machine: the next one */
            else if (status == 0 && tutti_run_add(&rows, &row) < 0)
                status = tutti_nomem(err);
        }
    }
    tutti_run_show(command, NULL, NULL, sink);
    if (status == 0 && rows.row_count == 0)
        status = tutti_fail(err, TUTTI_EINVAL, "no algorithm for %s fits '%s'",
                            tutti_collective_name(one.params.collective), ask->topo->name);
    if (status < 0)
        tutti_run_rows_done(&rows);
    else
        *ret = rows;
    return status;
}
