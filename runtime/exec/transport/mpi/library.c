/* The peer: collectives of the MPI library itself, asked for by the contract of a schedule. */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/transport/mpi/talk.h"
#include "runtime/mpi.h"
#include "runtime/record.h"
#include "runtime/schedule.h"

static const tutti_ps DEFAULT_DEADLINE_PS = 30 * TUTTI_PS_PER_S;

struct library {
    struct tutti_backend base; /* first member: the backend casts back */
    struct tutti_mpi_group *group;
    MPI_Comm comm;
};

/* One performance in this process. */
struct call {
    const struct tutti_contract *contract;
    MPI_Comm comm;
    int index;
    int process_count;
    int count; /* the contract's */
    MPI_Datatype type;
    MPI_Op op;
    const char *in;
    char *out;
    uint64_t out_bytes;
};

/* Where nothing is reduced, two bytes are two bytes. */
static MPI_Datatype type_of(enum tutti_dtype dtype)
{
    switch (dtype) {
    case TUTTI_FLOAT32:
        return MPI_FLOAT;
    case TUTTI_FLOAT64:
        return MPI_DOUBLE;
    case TUTTI_INT32:
        return MPI_INT32_T;
    case TUTTI_INT64:
        return MPI_INT64_T;
    case TUTTI_INT8:
        return MPI_INT8_T;
    case TUTTI_UINT8:
        return MPI_UINT8_T;
    default:
        return MPI_UINT16_T;
    }
}

static MPI_Op op_of(enum tutti_op op)
{
    switch (op) {
    case TUTTI_PROD:
        return MPI_PROD;
    case TUTTI_MIN:
        return MPI_MIN;
    case TUTTI_MAX:
        return MPI_MAX;
    default:
        return MPI_SUM;
    }
}

/* ---- one iteration ---- */

static int call_moving(const struct call *call)
{
    int root = (int)call->contract->root;
    int count = call->count;
    int next = (call->index + 1) % call->process_count;
    int previous = (call->index + call->process_count - 1) % call->process_count;
    int code;

    switch (call->contract->collective) {
    case TUTTI_ALLGATHER:
        return MPI_Allgather(call->in, count, call->type, call->out, count, call->type, call->comm);
    case TUTTI_ALLTOALL:
        return MPI_Alltoall(call->in, count, call->type, call->out, count, call->type, call->comm);
    case TUTTI_BROADCAST:
        /* MPI's broadcast has one buffer; the contract wants the root's output filled as well. The
         * root's buffer is only read. */
        code = MPI_Bcast(call->index == root ? (void *)(uintptr_t)call->in : call->out, count,
                         call->type, root, call->comm);
        if (call->index == root && call->out != call->in && call->out_bytes > 0)
            memcpy(call->out, call->in, call->out_bytes);
        return code;
    case TUTTI_SENDRECV:
        return MPI_Sendrecv(call->in, count, call->type, next, 0, call->out, count, call->type,
                            previous, 0, call->comm, MPI_STATUS_IGNORE);
    default:
        assert(call->contract->collective == TUTTI_BARRIER);
        return MPI_Barrier(call->comm);
    }
}

/* MPI forbids one buffer for both, and has a word for it. */
static int call_reducing(const struct call *call)
{
    const struct tutti_contract *contract = call->contract;
    bool in_place = call->in == call->out;
    bool has_result = true;
    int code;

    if (contract->collective == TUTTI_ALLREDUCE) {
        code = MPI_Allreduce(in_place ? MPI_IN_PLACE : call->in, call->out, call->count, call->type,
                             call->op, call->comm);
    } else if (contract->collective == TUTTI_REDUCESCATTER) {
        code = MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : call->in, call->out, call->count,
                                        call->type, call->op, call->comm);
    } else {
        has_result = call->index == (int)contract->root;
        code = MPI_Reduce(in_place && has_result ? MPI_IN_PLACE : call->in, call->out, call->count,
                          call->type, call->op, (int)contract->root, call->comm);
    }
    if (code == MPI_SUCCESS && has_result)
        tutti_finish(contract->dtype, contract->op, call->out, (size_t)call->count,
                     (uint32_t)call->process_count);
    return code;
}

static int call_once(const struct call *call, struct tutti_err *err)
{
    int code = tutti_collective_reduces(call->contract->collective) ? call_reducing(call)
                                                                    : call_moving(call);

    return tutti_mpi_status(code, "do it by MPI's own collective", err);
}

/* ---- all of them ---- */

/* Times of this process: [taken], of one iteration each, or of all. */
static int call_all(const struct call *call, const struct tutti_play *play, int64_t *took_ns,
                    struct tutti_err *err)
{
    uint64_t total = (uint64_t)play->warmup_count + play->iteration_count;
    int64_t began_ns = 0;
    int status = 0;

    for (uint64_t i = 0; i < total && status == 0; i++) {
        bool timed = i >= play->warmup_count;
        uint64_t taken = timed && play->barrier ? i - play->warmup_count : 0;

        if (play->barrier || i == play->warmup_count)
            status = tutti_mpi_status(MPI_Barrier(call->comm), "meet before an iteration", err);
        if (timed && (play->barrier || i == play->warmup_count))
            began_ns = tutti_mpi_now_ns();
        if (status == 0)
            status = call_once(call, err);
        if (timed && (play->barrier || i + 1 == total))
            took_ns[taken] = tutti_mpi_now_ns() - began_ns;
    }
    return status;
}

static int compare_ns(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

/* An iteration takes as long as in the process where it takes longest. */
static void sum_up(int64_t *all_ns, size_t taken_count, uint32_t process_count,
                   const struct tutti_play *play, struct tutti_played *ret)
{
    struct tutti_played played = {0};

    for (size_t i = 0; i < taken_count; i++) {
        for (uint32_t k = 1; k < process_count; k++) {
            if (all_ns[k * taken_count + i] > all_ns[i])
                all_ns[i] = all_ns[k * taken_count + i];
        }
        played.total_ps += all_ns[i] * TUTTI_PS_PER_NS;
    }
    qsort(all_ns, taken_count, sizeof(all_ns[0]), compare_ns);
    played.best_ps = all_ns[0] * TUTTI_PS_PER_NS;
    played.median_ps = all_ns[taken_count / 2] * TUTTI_PS_PER_NS;
    if (!play->barrier) {
        played.best_ps = played.total_ps / play->iteration_count;
        played.median_ps = played.best_ps;
    }
    *ret = played;
}

/* ---- what MPI cannot be asked for ---- */

static int check(const struct library *library, const struct tutti_schedule *schedule,
                 struct tutti_err *err)
{
    const struct tutti_contract *contract = &schedule->contract;
    uint32_t process_count = library->group->base.count;
    char name[TUTTI_MPI_NAME_BYTES];

    if (schedule->rank_count != process_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "MPI's own collectives know one rank a process: %u ranks in %u processes "
                          "(start as many processes as ranks)",
                          schedule->rank_count, process_count);
    if (contract->collective == TUTTI_CUSTOM)
        return tutti_fail(err, TUTTI_EINVAL, "the schedule '%s' has no contract for MPI to keep",
                          schedule->name);
    if (tutti_collective_reduces(contract->collective) &&
        (contract->dtype == TUTTI_FLOAT16 || contract->dtype == TUTTI_BFLOAT16))
        return tutti_fail(err, TUTTI_ELACK,
                          "%s has no type for '%s' to reduce (float, double, or "
                          "an integer)",
                          tutti_mpi_name(name), tutti_dtype_name(contract->dtype));
    if (contract->count > INT_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%llu elements are more than MPI's own collectives count (up to %d)",
                          (unsigned long long)contract->count, INT_MAX);
    return 0;
}

/* What is played, in this process; *ret_own: buffers that we provide, or NULL. */
static int prepare(const struct library *library, const struct tutti_play *play, struct call *ret,
                   char **ret_own, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = play->schedule;
    const struct tutti_contract *contract = &schedule->contract;
    uint32_t index = library->group->base.index;
    char *own = NULL;
    int status = check(library, schedule, err);

    if (status < 0)
        return status;
    if (play->in == NULL) {
        own = calloc(1, schedule->in_bytes + schedule->out_bytes + 1);
        if (own == NULL)
            return tutti_nomem(err);
    } else if (play->in[index] == play->out[index] && schedule->out_bytes > 0 &&
               !tutti_collective_reduces(contract->collective) &&
               contract->collective != TUTTI_BROADCAST) {
        return tutti_fail(err, TUTTI_EINVAL, "MPI's own %s is played out of place only",
                          tutti_collective_name(contract->collective));
    }
    *ret = (struct call){
        .contract = contract,
        .comm = library->comm,
        .index = (int)index,
        .process_count = (int)library->group->base.count,
        .count = (int)contract->count,
        .type = type_of(contract->dtype),
        .op = op_of(contract->op),
        .in = own != NULL ? own : play->in[index],
        .out = own != NULL ? own + schedule->in_bytes : play->out[index],
        .out_bytes = schedule->out_bytes,
    };
    *ret_own = own;
    return 0;
}

static int library_play(struct tutti_backend *backend, const struct tutti_play *play,
                        struct tutti_played *ret, struct tutti_err *err)
{
    struct library *library = (struct library *)backend;
    struct tutti_group *group = &library->group->base;
    tutti_ps deadline_ps = play->deadline_ps > 0 ? play->deadline_ps : DEFAULT_DEADLINE_PS;
    size_t taken_count = play->barrier ? play->iteration_count : 1;
    int64_t *took_ns = calloc(taken_count, sizeof(took_ns[0]));
    int64_t *all_ns = calloc(taken_count * group->count, sizeof(all_ns[0]));
    char *own = NULL;
    struct call call = {.contract = NULL};
    int status = prepare(library, play, &call, &own, err);

    if (status == 0 && (took_ns == NULL || all_ns == NULL))
        status = tutti_nomem(err);
    status =
        tutti_group_agree(group, status, deadline_ps, err); /* all are here, and all will play */
    tutti_mpi_enter(library->group);
    if (status == 0)
        status = call_all(&call, play, took_ns, err);
    tutti_mpi_leave(library->group);
    if (status == 0)
        status = tutti_group_exchange(group, took_ns, taken_count * sizeof(took_ns[0]), all_ns,
                                      deadline_ps, err);
    if (status == 0)
        sum_up(all_ns, taken_count, group->count, play, ret);
    if (status == 0 && play->record != NULL)
        tutti_record_clear(play->record);
    free(own);
    free(took_ns);
    free(all_ns);
    return status;
}

static void library_ranks(const struct tutti_backend *backend, uint32_t rank_count,
                          uint32_t *ret_first, uint32_t *ret_count)
{
    const struct tutti_group *group = &((const struct library *)backend)->group->base;

    *ret_first = tutti_group_first_rank(rank_count, group->count, group->index);
    *ret_count = tutti_group_first_rank(rank_count, group->count, group->index + 1) - *ret_first;
}

static void library_close(struct tutti_backend *backend)
{
    struct library *library = (struct library *)backend;

    if (!library->group->failed && !library->group->heard && !library->group->stopped)
        (void)MPI_Comm_free(&library->comm);
    free(library);
}

static const struct tutti_backend_ops ops = {
    .size = sizeof(struct tutti_backend_ops),
    .name = "mpi library",
    .close = library_close,
    .play = library_play,
    .ranks = library_ranks,
};

int tutti_mpi_library_open(struct tutti_group *group, struct tutti_backend **ret,
                           struct tutti_err *err)
{
    struct library *library = calloc(1, sizeof(*library));
    /* Who makes a communicator waits for all, and knows no deadline. */
    int status =
        tutti_group_agree(group, library == NULL ? tutti_nomem(err) : 0, DEFAULT_DEADLINE_PS, err);

    if (status < 0) {
        free(library);
        return status;
    }
    assert(strcmp(group->ops->name, "mpi") == 0);
    library->base.ops = &ops;
    library->group = (struct tutti_mpi_group *)group;
    status = tutti_mpi_status(MPI_Comm_dup(library->group->talk, &library->comm),
                              "make a communicator for MPI's own collectives", err);
    if (status < 0) {
        free(library);
        return status;
    }
    *ret = &library->base;
    return 0;
}
