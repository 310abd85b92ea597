/* Several GPUs of one host: see gpus.h. */
#include "runtime/exec/cuda/gpus.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/status.h"

#define CALL(GPU, FIELD, ...) \
    tutti_cuda_check(&(GPU)->driver, (GPU)->driver.FIELD(__VA_ARGS__), #FIELD, err)

/* ---- opening ---- */

int tutti_gpus_open(struct tutti_gpus *gpus, const char *library, uint32_t device,
                    uint32_t gpu_count, bool staged, struct tutti_err *err)
{
    struct tutti_gpus made = {.library = library, .device = device, .staged = staged};
    int there = 0;
    int status = tutti_gpu_open(&made.gpus[0], library, device, err);

    if (status < 0)
        return status;
    made.count = 1;
    status = CALL(&made.gpus[0], device_count, &there);
    if (status == 0 && device + (uint64_t)gpu_count > (uint64_t)there)
        status = tutti_fail(err, TUTTI_EINVAL, "there are no %u GPUs from number %u on (%u)",
                            gpu_count, device, (uint32_t)there - device);
    if (status == 0 && gpu_count > TUTTI_CUDA_GPUS_MAX)
        status =
            tutti_fail(err, TUTTI_EINVAL, "%u GPUs (at most %d)", gpu_count, TUTTI_CUDA_GPUS_MAX);
    if (status < 0) {
        tutti_gpus_close(&made);
        return status;
    }
    made.count_max = gpu_count != 0 ? gpu_count : (uint32_t)there - device;
    if (made.count_max > TUTTI_CUDA_GPUS_MAX)
        made.count_max = TUTTI_CUDA_GPUS_MAX;
    *gpus = made;
    return 0;
}

void tutti_gpus_close(struct tutti_gpus *gpus)
{
    for (uint32_t g = 0; g < gpus->count; g++) {
        if (!gpus->gpus[g].lost)
            (void)tutti_gpu_enter(&gpus->gpus[g], NULL);
        tutti_gpu_close(&gpus->gpus[g]);
    }
    *gpus = (struct tutti_gpus){0};
}

/* Lets kernels of `from` touch the memory of `to`; *ret: it does. That the driver says no is no
 * error: their messages then go through the host. */
static int reach(const struct tutti_gpu *from, const struct tutti_gpu *to, bool *ret,
                 struct tutti_err *err)
{
    int can = 0;
    int status = CALL(from, can_reach, &can, from->device, to->device);
    int result;

    *ret = false;
    if (status < 0 || can == 0)
        return status;
    status = tutti_gpu_enter(from, err);
    if (status < 0)
        return status;
    result = from->driver.reach(to->context, 0);
    *ret = result == TUTTI_CU_SUCCESS || result == TUTTI_CU_PEERS_ALREADY;
    if (*ret || result == TUTTI_CU_PEERS_UNSUPPORTED || result == TUTTI_CU_PEERS_TOO_MANY)
        return 0;
    return tutti_cuda_check(&from->driver, result, "reach", err);
}

/* The next GPU, and whether it and each of those before reach each other's memory. */
static int open_next(struct tutti_gpus *gpus, struct tutti_err *err)
{
    uint32_t g = gpus->count;
    int status = tutti_gpu_open(&gpus->gpus[g], gpus->library, gpus->device + g, err);

    if (status < 0)
        return status;
    for (uint32_t other = 0; other < g && !gpus->staged && status == 0; other++) {
        bool there = false;
        bool back = false;

        status = reach(&gpus->gpus[g], &gpus->gpus[other], &there, err);
        if (status == 0)
            status = reach(&gpus->gpus[other], &gpus->gpus[g], &back, err);
        gpus->direct[g][other] = gpus->direct[other][g] = there && back;
    }
    if (status < 0) {
        (void)tutti_gpu_enter(&gpus->gpus[g], NULL);
        tutti_gpu_close(&gpus->gpus[g]);
        return status;
    }
    gpus->count++;
    return 0;
}

int tutti_gpus_spread(struct tutti_gpus *gpus, uint32_t rank_count, struct tutti_cuda_spread *ret,
                      struct tutti_err *err)
{
    struct tutti_cuda_spread spread = {.gpu_count = gpus->count_max < rank_count ? gpus->count_max
                                                                                 : rank_count};

    while (gpus->count < spread.gpu_count) {
        int status = open_next(gpus, err);

        if (status < 0)
            return tutti_wrap(err, status, "GPU %u", gpus->device + gpus->count);
    }
    for (uint32_t a = 0; a < spread.gpu_count; a++)
        for (uint32_t b = 0; b < spread.gpu_count; b++)
            spread.direct[a][b] = gpus->direct[a][b];
    *ret = spread;
    return 0;
}

/* ---- in words ---- */

/* Of all pairs, how many reach each other. */
static const char *peer_words(const struct tutti_cuda_spread *spread)
{
    uint32_t pairs = 0;
    uint32_t direct = 0;

    for (uint32_t a = 0; a < spread->gpu_count; a++) {
        for (uint32_t b = 0; b < a; b++) {
            pairs++;
            direct += spread->direct[a][b];
        }
    }
    return direct == pairs ? "peer access"
           : direct == 0   ? "no peer access: through the host"
                           : "peer access between some, the others through the host";
}

int tutti_gpus_places(struct tutti_gpus *gpus, uint32_t rank_count, char *ret, size_t bytes,
                      struct tutti_err *err)
{
    struct tutti_cuda_spread spread;
    size_t used = 0;
    int status = tutti_gpus_spread(gpus, rank_count, &spread, err);

    ret[0] = '\0';
    for (uint32_t g = 0; status == 0 && spread.gpu_count > 1 && g < spread.gpu_count; g++) {
        uint32_t first = tutti_cuda_first_rank(&spread, g, rank_count);
        uint32_t end = tutti_cuda_first_rank(&spread, g + 1, rank_count);
        char last[16] = "";

        if (end - first > 1)
            (void)snprintf(last, sizeof(last), "-%u", end - 1);
        used += (size_t)snprintf(ret + used, bytes - used, "%s%u%s on GPU %u, ",
                                 g > 0             ? ""
                                 : end - first > 1 ? "ranks "
                                                   : "rank ",
                                 first, last, gpus->device + g);
        assert(used < bytes); /* at most 16 GPUs */
    }
    if (status == 0 && spread.gpu_count > 1)
        (void)snprintf(ret + used, bytes - used, "%s", peer_words(&spread));
    return status;
}

/* ---- what GPUs share with the host ---- */

struct shared {
    uint32_t stop; /* a wait took too long */
    uint32_t unused[31];
    struct tutti_cuda_counter gates[TUTTI_CUDA_GPUS_MAX];
    /* Then the counters of those that do not reach each other, and the memory of their messages. */
};

static bool any_apart(const struct tutti_cuda_spread *spread)
{
    for (uint32_t a = 0; a < spread->gpu_count; a++)
        for (uint32_t b = 0; b < a; b++)
            if (!spread->direct[a][b])
                return true;
    return false;
}

static uint64_t counter_bytes(const struct tutti_cuda_plan *plan)
{
    uint64_t bytes = tutti_cuda_counter_count(plan) * sizeof(struct tutti_cuda_counter);

    return any_apart(&plan->spread) ? (bytes + 511) / 512 * 512 : 0;
}

static int take_shared(struct tutti_gpus_load *load, struct tutti_err *err)
{
    const struct tutti_cuda_plan *plan = load->loads[0].plan;
    uint64_t message_bytes = plan->home_bytes[plan->spread.gpu_count];
    uint64_t zeroed =
        sizeof(struct shared) + counter_bytes(plan) + (plan->lined ? message_bytes : 0);
    int status = CALL(load->loads[0].gpu, host_alloc, &load->shared,
                      (size_t)(sizeof(struct shared) + counter_bytes(plan) + message_bytes),
                      TUTTI_CU_HOST_PORTABLE | TUTTI_CU_HOST_MAPPED);

    if (status < 0)
        return tutti_wrap(err, status,
                          "%.3g GiB of the host's memory for messages between GPUs that do not "
                          "reach each other's",
                          (double)message_bytes / 0x1p30);
    for (uint64_t i = 0; i < zeroed; i++)
        ((char *)load->shared)[i] = 0;
    return 0;
}

/* Tells one GPU where the others have what its lanes touch. */
static int introduce(struct tutti_gpus_load *load, uint32_t index, struct tutti_err *err)
{
    struct tutti_gpu_load *own = &load->loads[index];
    struct tutti_cuda_args *args = &own->args;
    uint64_t shared = 0;
    int status = CALL(own->gpu, host_address, &shared, load->shared, 0);

    if (status < 0)
        return status;
    args->stop = (uint32_t *)(uintptr_t)(shared + offsetof(struct shared, stop));
    args->gates = (struct tutti_cuda_counter *)(uintptr_t)(shared + offsetof(struct shared, gates));
    args->far[load->count] =
        (struct tutti_cuda_counter *)(uintptr_t)(shared + sizeof(struct shared));
    own->homes[load->count] = shared + sizeof(struct shared) + counter_bytes(own->plan);
    for (uint32_t g = 0; g < load->count; g++) {
        const struct tutti_gpu_load *other = &load->loads[g];

        args->far[g] = other->args.counters;
        own->homes[g] = other->homes[g];
        for (int b = TUTTI_BUF_IN; b < TUTTI_BUF_COUNT; b++)
            for (uint32_t r = other->part.rank_first; r < other->part.rank_end; r++)
                own->addresses[b][r] = other->addresses[b][r];
    }
    return 0;
}

/* ---- parts ---- */

int tutti_gpus_enter(struct tutti_gpus_load *load, uint32_t index, struct tutti_err *err)
{
    return load->count > 1 ? tutti_gpu_enter(load->loads[index].gpu, err) : 0;
}

static int open_parts(struct tutti_gpus_load *load, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t g = 0; g < load->count && status == 0; g++) {
        status = tutti_gpus_enter(load, g, err);
        if (status == 0)
            status = tutti_gpu_load_take(&load->loads[g], err);
    }
    if (status == 0 && load->count > 1)
        status = take_shared(load, err);
    for (uint32_t g = 0; g < load->count && status == 0; g++) {
        status = tutti_gpus_enter(load, g, err);
        if (status == 0 && load->count > 1)
            status = introduce(load, g, err);
        if (status == 0)
            status = tutti_gpu_load_send(&load->loads[g], err);
        if (status == 0 && load->count > 1)
            status = tutti_gpu_load_meetings(&load->loads[g], 1, err);
    }
    return status;
}

int tutti_gpus_load_open(struct tutti_gpus_load *load, struct tutti_gpus *gpus,
                         const struct tutti_cuda_plan *plan, const struct tutti_gpus_way *way,
                         struct tutti_err *err)
{
    struct tutti_gpus_load made = {.count = plan->spread.gpu_count, .iteration_count = 1};
    int status;

    if (way->by_levels && made.count > 1)
        return tutti_fail(err, TUTTI_ELACK,
                          "a graph is played on one GPU, and %u ranks are spread over %u",
                          plan->schedule->rank_count, made.count);
    for (uint32_t g = 0; g < made.count; g++)
        made.loads[g] = (struct tutti_gpu_load){.by_levels = way->by_levels,
                                                .stamped = way->stamped,
                                                .lent = way->lent,
                                                .gpu = &gpus->gpus[g],
                                                .plan = plan,
                                                .part = tutti_cuda_part_of(plan, g),
                                                .thread_count = way->thread_count};
    status = open_parts(&made, err);
    if (status < 0) {
        tutti_gpus_load_close(&made);
        return status;
    }
    *load = made;
    return 0;
}

void tutti_gpus_load_close(struct tutti_gpus_load *load)
{
    const struct tutti_gpu *first = load->loads[0].gpu;
    bool lost = false;

    for (uint32_t g = 0; g < load->count; g++) {
        lost = lost || load->loads[g].gpu->lost;
        if (!load->loads[g].gpu->lost)
            (void)tutti_gpu_enter(load->loads[g].gpu, NULL);
        tutti_gpu_load_close(&load->loads[g]);
    }
    if (load->shared != NULL && !lost)
        (void)first->driver.host_free(load->shared);
    *load = (struct tutti_gpus_load){0};
}

int tutti_gpus_load_of(struct tutti_gpus_load *load, uint32_t rank, struct tutti_gpu_load **ret,
                       struct tutti_err *err)
{
    const struct tutti_cuda_plan *plan = load->loads[0].plan;
    uint32_t index = tutti_cuda_gpu_of(&plan->spread, rank, plan->schedule->rank_count);

    *ret = &load->loads[index];
    return tutti_gpus_enter(load, index, err);
}

int tutti_gpus_load_meetings(struct tutti_gpus_load *load, uint32_t count, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t g = 0; g < load->count && status == 0; g++) {
        status = tutti_gpus_enter(load, g, err);
        if (status == 0)
            status = tutti_gpu_load_meetings(&load->loads[g], count, err);
    }
    return status;
}

/* ---- playing ---- */

int tutti_gpus_launch(struct tutti_gpus_load *load, uint32_t iteration_count, bool stamped,
                      struct tutti_err *err)
{
    int status = 0;

    load->iteration_count = iteration_count;
    for (uint32_t g = 0; g < load->count && status == 0; g++) {
        status = tutti_gpus_enter(load, g, err);
        if (status == 0)
            status = tutti_gpu_launch(&load->loads[g], iteration_count, stamped, err);
    }
    return status;
}

static tutti_ps now_ps(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (tutti_ps)now.tv_sec * TUTTI_PS_PER_S + (tutti_ps)now.tv_nsec * 1000;
}

void tutti_gpus_leave(struct tutti_gpus_load *load)
{
    static const tutti_ps leave_ps = 5 * TUTTI_PS_PER_S;
    tutti_ps since_ps = now_ps();

    if (load->count < 2) /* one that waits for no other ends by itself */
        return;
    for (uint32_t g = 0; g < load->count; g++)
        __atomic_store_n(load->loads[g].gpu->abort, 1, __ATOMIC_RELAXED);
    for (uint32_t g = 0; g < load->count; g++) {
        struct tutti_gpu *gpu = load->loads[g].gpu;

        while (!gpu->lost && gpu->driver.stream_query(gpu->stream) == TUTTI_CU_NOT_READY)
            gpu->lost = now_ps() - since_ps > leave_ps;
    }
    for (uint32_t g = 0; g < load->count; g++)
        if (!load->loads[g].gpu->lost)
            __atomic_store_n(load->loads[g].gpu->abort, 0, __ATOMIC_RELAXED);
}

/* One look at each; 1: some still play. The host's work is done meanwhile. */
static int look(struct tutti_gpus_load *load, bool *ret_works, struct tutti_err *err)
{
    bool plays = false;

    for (uint32_t g = 0; g < load->count; g++) {
        struct tutti_gpu *gpu = load->loads[g].gpu;
        int result = gpu->driver.stream_query(gpu->stream);
        int status = 0;

        if (result != TUTTI_CU_SUCCESS && result != TUTTI_CU_NOT_READY)
            return tutti_cuda_check(&gpu->driver, result, "stream_query", err);
        plays = plays || result == TUTTI_CU_NOT_READY;
        if (result == TUTTI_CU_SUCCESS || load->loads[g].work.lane_count == 0)
            continue;
        *ret_works = true;
        status = tutti_gpus_enter(load, g, err);
        if (status == 0)
            status = tutti_gpu_work_serve(&load->loads[g], err);
        if (status < 0)
            return status;
    }
    return plays;
}

int tutti_gpus_wait(struct tutti_gpus_load *load, tutti_ps limit_ps, struct tutti_err *err)
{
    tutti_ps since_ps = now_ps();
    bool works = false;
    int plays;

    if (load->count == 1)
        return tutti_gpu_wait(load->loads[0].gpu, &load->loads[0], limit_ps, err);
    while ((plays = look(load, &works, err)) > 0) {
        if (works) /* its work takes the time that it takes */
            since_ps = now_ps();
        if (now_ps() - since_ps > limit_ps)
            return tutti_fail(err, TUTTI_EIO, "a kernel did not end until it was told to leave");
    }
    return plays;
}

int tutti_gpus_verdict(struct tutti_gpus_load *load, tutti_ps deadline_ps, struct tutti_err *err)
{
    const struct tutti_cuda_plan *plan = load->loads[0].plan;
    struct tutti_cuda_verdict *verdicts;
    int status = 0;

    if (load->count == 1)
        return tutti_gpu_verdict(&load->loads[0], deadline_ps, err);
    if (__atomic_load_n(&((const struct shared *)load->shared)->stop, __ATOMIC_RELAXED) == 0)
        return 0;
    verdicts = calloc((size_t)plan->lane_total + 1, sizeof(*verdicts));
    if (verdicts == NULL)
        return tutti_nomem(err);
    for (uint32_t g = 0; g < load->count && status == 0; g++) {
        status = tutti_gpus_enter(load, g, err);
        if (status == 0)
            status = tutti_gpu_verdicts(&load->loads[g], verdicts, err);
    }
    if (status == 0)
        status = tutti_gpu_blame(plan, verdicts, deadline_ps, err);
    free(verdicts);
    return status;
}

/* ---- times ---- */

int tutti_gpus_record(struct tutti_gpus_load *load, bool begins, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t g = 0; g < load->count && status == 0; g++) {
        struct tutti_gpu *gpu = load->loads[g].gpu;

        status = tutti_gpus_enter(load, g, err);
        if (status == 0)
            status = CALL(gpu, event_record, begins ? gpu->begin : gpu->end, gpu->stream);
    }
    return status;
}

int tutti_gpus_elapsed(struct tutti_gpus_load *load, float *ret_ms, struct tutti_err *err)
{
    int status = 0;

    *ret_ms = 0;
    for (uint32_t g = 0; g < load->count && status == 0; g++) {
        struct tutti_gpu *gpu = load->loads[g].gpu;
        float took_ms = 0;

        status = tutti_gpus_enter(load, g, err);
        if (status == 0)
            status = CALL(gpu, event_elapsed, &took_ms, gpu->begin, gpu->end);
        *ret_ms = took_ms > *ret_ms ? took_ms : *ret_ms;
    }
    return status;
}

int tutti_gpus_clock(struct tutti_gpus_load *load, uint32_t index, int64_t *ret_behind_ns,
                     struct tutti_err *err)
{
    uint64_t met_ns[2] = {0, 0};
    int status = 0;

    for (uint32_t i = 0; i < 2 && status == 0; i++) {
        uint32_t g = i == 0 ? 0 : index;
        uint64_t at = load->loads[g].meetings + (load->iteration_count - 1) * sizeof(uint64_t);

        status = tutti_gpus_enter(load, g, err);
        if (status == 0)
            status = tutti_gpu_download(load->loads[g].gpu, &met_ns[i], at, sizeof(met_ns[i]), err);
    }
    *ret_behind_ns = (int64_t)(met_ns[0] - met_ns[1]);
    return status;
}
