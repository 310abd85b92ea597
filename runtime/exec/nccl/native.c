/* The peer: collectives of NCCL itself, asked for by the contract of a schedule. */
#include <assert.h>

#include "runtime/exec/nccl/ranks.h"

#define CALL(LIBRARY, FIELD, ...) \
    tutti_nccl_check(LIBRARY, (LIBRARY)->FIELD(__VA_ARGS__), "nccl " #FIELD, err)

int tutti_nccl_native_check(const struct tutti_nccl_loaded *run, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = run->load.schedule;

    if (schedule->contract.collective == TUTTI_CUSTOM)
        return tutti_fail(err, TUTTI_EINVAL, "the schedule '%s' has no contract for NCCL to keep",
                          schedule->name);
    return 0;
}

/* One rank's call. */
struct call {
    const struct tutti_contract *contract;
    const struct tutti_nccl_library *library;
    const char *in;
    char *out;
    size_t count;
    int type;
    int op;
    uint32_t rank;
    uint32_t rank_count;
    void *comm;
    void *stream;
};

static int exchange(const struct call *call, uint32_t to, uint64_t in_at, uint32_t from,
                    uint64_t out_at, struct tutti_err *err)
{
    int status = CALL(call->library, send, call->in + in_at, call->count, call->type, (int)to,
                      call->comm, call->stream);

    return status < 0 ? status
                      : CALL(call->library, recv, call->out + out_at, call->count, call->type,
                             (int)from, call->comm, call->stream);
}

static int alltoall(const struct call *call, struct tutti_err *err)
{
    uint64_t bytes = call->count * tutti_dtype_bytes(call->contract->dtype);
    int status = 0;

    if (call->library->alltoall != NULL)
        return CALL(call->library, alltoall, call->in, call->out, call->count, call->type,
                    call->comm, call->stream);
    for (uint32_t i = 0; i < call->rank_count && status == 0; i++)
        status = exchange(call, i, i * bytes, i, i * bytes, err);
    return status;
}

static int call_one(const struct call *call, struct tutti_err *err)
{
    const struct tutti_nccl_library *library = call->library;
    uint32_t n = call->rank_count;

    switch (call->contract->collective) {
    case TUTTI_ALLREDUCE:
        return CALL(library, all_reduce, call->in, call->out, call->count, call->type, call->op,
                    call->comm, call->stream);
    case TUTTI_REDUCESCATTER:
        return CALL(library, reduce_scatter, call->in, call->out, call->count, call->type, call->op,
                    call->comm, call->stream);
    case TUTTI_ALLGATHER:
        return CALL(library, all_gather, call->in, call->out, call->count, call->type, call->comm,
                    call->stream);
    case TUTTI_BROADCAST:
        return CALL(library, broadcast, call->in, call->out, call->count, call->type,
                    (int)call->contract->root, call->comm, call->stream);
    case TUTTI_REDUCE_TO_ROOT:
        return CALL(library, reduce, call->in, call->out, call->count, call->type, call->op,
                    (int)call->contract->root, call->comm, call->stream);
    case TUTTI_ALLTOALL:
        return alltoall(call, err);
    case TUTTI_SENDRECV:
        return exchange(call, (call->rank + 1) % n, 0, (call->rank + n - 1) % n, 0, err);
    default:
        assert(call->contract->collective == TUTTI_BARRIER);
        return CALL(library, all_reduce, call->out, call->out, 1, TUTTI_NCCL_UINT8, 0, call->comm,
                    call->stream);
    }
}

struct tutti_nccl_member tutti_nccl_member_of(const struct tutti_nccl_player *player,
                                              const struct tutti_nccl_rank *rank)
{
    return (struct tutti_nccl_member){.gpu = &rank->gpu,
                                      .comm = rank->comm,
                                      .rank = rank->rank,
                                      .rank_count = player->rank_count};
}

int tutti_nccl_native(const struct tutti_nccl_library *library,
                      const struct tutti_nccl_member *member, const struct tutti_contract *contract,
                      uint64_t in, uint64_t out, struct tutti_err *err)
{
    const struct call call = {
        .contract = contract,
        .library = library,
        .in = (const char *)(uintptr_t)in,
        .out = (char *)(uintptr_t)out,
        .count = (size_t)contract->count,
        .type = tutti_nccl_type(contract->dtype),
        .op = tutti_nccl_op(contract->op),
        .rank = member->rank,
        .rank_count = member->rank_count,
        .comm = member->comm,
        .stream = member->gpu->stream,
    };
    int status = tutti_gpu_enter(member->gpu, err);

    return status < 0 ? status : call_one(&call, err);
}

/* ---- what NCCL thinks of it ---- */

/* Whether the simulation came about; it says nothing of what only sends and receives. */
static bool simulate(const struct tutti_nccl_player *player, const struct tutti_contract *contract,
                     uint64_t bytes, float *ret_us)
{
    const struct tutti_nccl_library *library = &player->library;
    struct tutti_nccl_simulation simulation = {.size = sizeof(simulation),
                                               .magic = TUTTI_NCCL_SIMULATION_MAGIC,
                                               .version = TUTTI_NCCL_SIMULATION_VERSION,
                                               .estimated_us = -1.0f};
    int status = 0;

    if (library->group_start() != TUTTI_NCCL_SUCCESS)
        return false;
    for (uint32_t i = 0; i < player->own_count && status == 0; i++) {
        const struct tutti_nccl_member member = tutti_nccl_member_of(player, &player->ranks[i]);
        uint64_t memory = player->ranks[i].simulated;

        status = tutti_nccl_native(library, &member, contract, memory, memory + bytes, NULL);
    }
    if (library->simulate_end(&simulation) != TUTTI_NCCL_SUCCESS || status < 0)
        return false;
    *ret_us = simulation.estimated_us;
    return true;
}

int tutti_nccl_estimate(struct tutti_backend *backend, const struct tutti_contract *contract,
                        tutti_ps *ret, struct tutti_err *err)
{
    struct tutti_nccl_player *player = (struct tutti_nccl_player *)tutti_backend_player(backend);
    uint64_t bytes = contract->count * tutti_dtype_bytes(contract->dtype) * player->rank_count;
    float us = 0;
    int status = 0;

    *ret = 0;
    if (player->library.simulate_end == NULL || !player->connected || !player->blocks ||
        player->rank_count < 2)
        return 0;
    bytes = (bytes / 512 + 1) * 512;
    for (uint32_t i = 0; i < player->own_count && status == 0; i++) {
        struct tutti_gpu *gpu = &player->ranks[i].gpu;

        status = tutti_gpu_enter(gpu, err);
        if (status == 0)
            status = tutti_cuda_check(
                &gpu->driver, gpu->driver.alloc(&player->ranks[i].simulated, (size_t)(2 * bytes)),
                "alloc", err);
    }
    if (status == 0 && simulate(player, contract, bytes, &us) && us > 0)
        *ret = (tutti_ps)((double)us * 1e6);
    tutti_nccl_abort(player);
    for (uint32_t i = 0; i < player->own_count; i++) {
        if (player->ranks[i].simulated != 0 && tutti_gpu_enter(&player->ranks[i].gpu, NULL) == 0)
            (void)player->ranks[i].gpu.driver.free(player->ranks[i].simulated);
        player->ranks[i].simulated = 0;
    }
    return status;
}
