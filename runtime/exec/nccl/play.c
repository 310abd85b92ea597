/* Plays a burst: level by level, a group of sends and receives and then what ranks do by
 * themselves. Nothing is waited for without a bound: how far the streams have come is marked by an
 * event at the end of each level, and looked at. */
#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "runtime/exec/nccl/ranks.h"
#include "runtime/group.h"

#define CALL(GPU, FIELD, ...) \
    tutti_cuda_check(&(GPU)->driver, (GPU)->driver.FIELD(__VA_ARGS__), #FIELD, err)
#define NCCL(RUN, FIELD, ...)                                                            \
    tutti_nccl_check(&(RUN)->player->library, (RUN)->player->library.FIELD(__VA_ARGS__), \
                     "nccl " #FIELD, err)

/* ---- waiting ---- */

static int ask(const struct tutti_nccl_library *library, void *comm, bool *settled,
               struct tutti_err *err)
{
    int state = TUTTI_NCCL_SUCCESS;
    int status = comm == NULL ? 0
                              : tutti_nccl_check(library, library->async_error(comm, &state),
                                                 "nccl async_error", err);

    if (status == 0)
        status = tutti_nccl_check(library, state, "nccl in the background", err);
    *settled = *settled && state == TUTTI_NCCL_SUCCESS;
    return status;
}

int tutti_nccl_look(struct tutti_nccl_loaded *run, bool *ret_settled, struct tutti_err *err)
{
    struct tutti_nccl_player *player = run->player;

    *ret_settled = true;
    if (atomic_load(&run->aborted)) {
        int status;

        (void)pthread_mutex_lock(&run->lock);
        status = run->abort_status;
        if (err != NULL)
            *err = run->abort_err;
        (void)pthread_mutex_unlock(&run->lock);
        return status;
    }
    for (uint32_t i = 0; i < player->own_count; i++) {
        const struct tutti_nccl_rank *rank = &player->ranks[i];
        int status = ask(&player->library, rank->comm, ret_settled, err);

        for (uint32_t k = 0; k < player->axis_count && status == 0; k++)
            status = ask(&player->library, rank->groups[k], ret_settled, err);
        if (status < 0)
            return status;
    }
    return 0;
}

/* " from ranks 1, 2, 5": whom the ranks here receive from in a level, or send to. */
static void name_peers(const struct tutti_nccl_loaded *run, uint32_t own, uint32_t level, char *buf,
                       size_t buf_bytes)
{
    enum { NAMED_MAX = 8 };
    const struct tutti_nccl_part *part = &run->parts[own];
    uint32_t named = 0;
    uint32_t last = UINT32_MAX;

    buf[0] = '\0';
    for (uint32_t i = 0; i < part->message_count && named <= NAMED_MAX; i++) {
        const struct tutti_nccl_message *message = &part->messages[i];

        if (message->level != level || message->peer == last)
            continue;
        last = message->peer;
        if (named++ < NAMED_MAX)
            (void)snprintf(buf + strlen(buf), buf_bytes - strlen(buf), "%s%u",
                           named == 1 ? ", awaiting rank " : ", ", last);
        else
            (void)snprintf(buf + strlen(buf), buf_bytes - strlen(buf), " and more");
    }
}

static int is_late(const struct tutti_nccl_loaded *run, uint32_t own, uint32_t level,
                   struct tutti_err *err)
{
    double deadline_s = (double)run->load.deadline_ps / 1e12;
    char peers[160];

    if (level == TUTTI_NCCL_MEETING)
        return tutti_fail(err, TUTTI_ETIME,
                          "rank %u: the deadline of %.3g s passed while ranks met between "
                          "iterations",
                          run->player->ranks[own].rank, deadline_s);
    if (level == TUTTI_NCCL_CALLING)
        return tutti_fail(err, TUTTI_ETIME,
                          "rank %u: the deadline of %.3g s passed while others were to come to it",
                          run->player->ranks[own].rank, deadline_s);
    if (level == TUTTI_NCCL_CONNECTING)
        return tutti_fail(err, TUTTI_ETIME,
                          "the deadline of %.3g s passed while NCCL connected the ranks",
                          deadline_s);
    if (run->player->opts.native)
        return tutti_fail(err, TUTTI_ETIME,
                          "rank %u, NCCL's own collective: the deadline of %.3g s passed",
                          run->parts[own].rank->rank, deadline_s);
    name_peers(run, own, level, peers, sizeof(peers));
    return tutti_fail(err, TUTTI_ETIME, "rank %u, level %u of %u%s: the deadline of %.3g s passed",
                      run->parts[own].rank->rank, level, run->levels.level_count - 1, peers,
                      deadline_s);
}

int tutti_nccl_settle(struct tutti_nccl_loaded *run, uint32_t level, struct tutti_err *err)
{
    int64_t since_ns = tutti_nccl_now_ns();
    bool settled = false;
    int status = 0;

    if (run->player->blocks || run->player->own_count == 0)
        return 0;
    while (status == 0 && !settled) {
        status = tutti_nccl_look(run, &settled, err);
        if (status == 0 && !settled) {
            (void)sched_yield();
            if (tutti_nccl_now_ns() - since_ns > run->load.deadline_ps / TUTTI_PS_PER_NS)
                status = is_late(run, 0, level, err);
        }
    }
    return status;
}

/* Counts the marks that all streams have passed; of those that have not, *ret_own is the first. */
static int count_marks(struct tutti_nccl_loaded *run, uint32_t *ret_own, struct tutti_err *err)
{
    while (run->mark_done < run->mark_count) {
        for (uint32_t i = 0; i < run->load.own_count; i++) {
            struct tutti_gpu *gpu = &run->parts[i].rank->gpu;
            int result =
                gpu->driver.event_query(run->parts[i].marks[run->mark_done % TUTTI_NCCL_MARKS]);

            if (result == TUTTI_CU_NOT_READY) {
                *ret_own = i;
                return 0;
            }
            if (result != TUTTI_CU_SUCCESS)
                return tutti_cuda_check(&gpu->driver, result, "event_query", err);
        }
        run->mark_done++;
    }
    return 0;
}

/* Until all streams have passed mark `until`. */
static int wait_marks(struct tutti_nccl_loaded *run, uint64_t until, struct tutti_err *err)
{
    enum { LOOK_EVERY = 256 };
    int64_t since_ns = tutti_nccl_now_ns();
    uint64_t done = run->mark_done;
    uint32_t own = 0;
    int status = count_marks(run, &own, err);

    for (uint32_t turn = 1; status == 0 && run->mark_done < until; turn++) {
        bool settled;

        if (run->mark_done > done) {
            done = run->mark_done;
            since_ns = tutti_nccl_now_ns();
        }
        if (turn % LOOK_EVERY == 0) {
            (void)sched_yield();
            status = tutti_nccl_look(run, &settled, err);
        }
        if (status == 0 && tutti_nccl_now_ns() - since_ns > run->load.deadline_ps / TUTTI_PS_PER_NS)
            return is_late(run, own, run->mark_levels[done % TUTTI_NCCL_MARKS], err);
        if (status == 0)
            status = count_marks(run, &own, err);
    }
    return status;
}

static int wait_all(struct tutti_nccl_loaded *run, struct tutti_err *err)
{
    return wait_marks(run, run->mark_count, err);
}

static int mark(struct tutti_nccl_loaded *run, uint32_t level, struct tutti_err *err)
{
    int status = 0;

    if (run->mark_count - run->mark_done >= TUTTI_NCCL_MARKS)
        status = wait_marks(run, run->mark_count - TUTTI_NCCL_MARKS + 1, err);
    for (uint32_t i = 0; i < run->load.own_count && status == 0; i++) {
        struct tutti_gpu *gpu = &run->parts[i].rank->gpu;

        status = tutti_gpu_enter(gpu, err);
        if (status == 0)
            status = CALL(gpu, event_record,
                          run->parts[i].marks[run->mark_count % TUTTI_NCCL_MARKS], gpu->stream);
    }
    run->mark_levels[run->mark_count % TUTTI_NCCL_MARKS] = level;
    run->mark_count += status == 0;
    return status;
}

/* ---- a level ---- */

/* The end of what a rank does at one time, for the record. */
static int end_unit(struct tutti_nccl_part *part, struct tutti_level_stage at, bool recorded,
                    struct tutti_err *err)
{
    struct tutti_gpu *gpu = &part->rank->gpu;

    if (!recorded)
        return 0;
    assert(part->unit_next < part->unit_count);
    assert(part->units[part->unit_next].at.level == at.level);
    assert(part->units[part->unit_next].at.stage == at.stage);
    return CALL(gpu, event_record, part->units[part->unit_next++].end, gpu->stream);
}

static bool has_work(const struct tutti_nccl_part *part, uint32_t level)
{
    return part->launch_next < part->launch_count &&
           part->launches[part->launch_next].at.level == level;
}

static bool has_messages(const struct tutti_nccl_part *part, uint32_t level)
{
    return part->message_next < part->message_count &&
           part->messages[part->message_next].level == level;
}

static int post_messages(struct tutti_nccl_loaded *run, struct tutti_nccl_part *part,
                         uint32_t level, struct tutti_err *err)
{
    void *stream = part->rank->gpu.stream;
    int status = has_messages(part, level) ? tutti_gpu_enter(&part->rank->gpu, err) : 0;

    for (; status == 0 && has_messages(part, level); part->message_next++) {
        const struct tutti_nccl_message *message = &part->messages[part->message_next];
        void *at = (void *)(uintptr_t)message->at;

        status = message->is_send ? NCCL(run, send, at, (size_t)message->bytes, TUTTI_NCCL_UINT8,
                                         (int)message->peer, part->rank->comm, stream)
                                  : NCCL(run, recv, at, (size_t)message->bytes, TUTTI_NCCL_UINT8,
                                         (int)message->peer, part->rank->comm, stream);
    }
    return status;
}

static int play_group(struct tutti_nccl_loaded *run, uint32_t level, bool recorded,
                      struct tutti_err *err)
{
    int status = tutti_nccl_group_begin(&run->player->library, err);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < run->load.own_count && run->player->opts.native && status == 0; i++) {
        const struct tutti_nccl_part *part = &run->parts[i];
        const struct tutti_nccl_member member = tutti_nccl_member_of(run->player, part->rank);

        status =
            tutti_nccl_native(&run->player->library, &member, &run->load.schedule->contract,
                              part->addresses[TUTTI_BUF_IN], part->addresses[TUTTI_BUF_OUT], err);
    }
    for (uint32_t i = 0; i < run->load.own_count && status == 0; i++)
        status = post_messages(run, &run->parts[i], level, err);
    status = tutti_nccl_group_end(&run->player->library, status, err);
    if (status == 0)
        status = tutti_nccl_settle(run, level, err);
    for (uint32_t i = 0; i < run->load.own_count && status == 0 && recorded; i++) {
        struct tutti_nccl_part *part = &run->parts[i];
        struct tutti_level_stage at = {.level = level};

        if (part->message_next == 0 || part->messages[part->message_next - 1].level != level)
            continue;
        status = tutti_gpu_enter(&part->rank->gpu, err);
        if (status == 0)
            status = end_unit(part, at, recorded, err);
    }
    return status;
}

static int launch(struct tutti_nccl_part *part, const struct tutti_nccl_launch *what,
                  struct tutti_err *err)
{
    enum { THREADS = 512 };
    struct tutti_gpu *gpu = &part->rank->gpu;
    struct tutti_cuda_args args = {
        .ops = (const struct tutti_cuda_op *)(uintptr_t)part->ops,
        .lanes = (const struct tutti_cuda_lane *)(uintptr_t)part->lanes + what->lane_first,
        .abort = (const uint32_t *)(uintptr_t)gpu->abort_address,
        .deadline_ns = UINT64_MAX,
        .iteration = 1,
        .iteration_count = 1,
    };
    void *parameters[1] = {&args};

    return CALL(gpu, launch_alone, what->kernel, what->lane_count, 1, 1, THREADS, 1, 1, 0,
                gpu->stream, parameters, NULL);
}

/* The host works once the streams are done with what comes before. */
static int work_by_host(struct tutti_nccl_loaded *run, uint32_t own,
                        const struct tutti_nccl_launch *what, struct tutti_err *err)
{
    int status = mark(run, what->at.level, err);

    if (status == 0)
        status = wait_all(run, err);
    if (status == 0)
        status = tutti_gpu_enter(&run->parts[own].rank->gpu, err);
    return status < 0 ? status : tutti_nccl_host_work(run, own, what, err);
}

static int play_work(struct tutti_nccl_loaded *run, uint32_t own, uint32_t level, bool recorded,
                     struct tutti_err *err)
{
    struct tutti_nccl_part *part = &run->parts[own];
    int status = has_work(part, level) ? tutti_gpu_enter(&part->rank->gpu, err) : 0;

    for (; status == 0 && has_work(part, level); part->launch_next++) {
        const struct tutti_nccl_launch *what = &part->launches[part->launch_next];

        status = what->work != NULL ? work_by_host(run, own, what, err) : launch(part, what, err);
        if (status == 0)
            status = end_unit(part, what->at, recorded, err);
    }
    return status;
}

static int play_level(struct tutti_nccl_loaded *run, uint32_t level, bool recorded,
                      struct tutti_err *err)
{
    bool messages = run->player->opts.native;
    bool work = false;
    int status = 0;

    for (uint32_t i = 0; i < run->load.own_count; i++) {
        messages = messages || has_messages(&run->parts[i], level);
        work = work || has_work(&run->parts[i], level);
    }
    if (messages)
        status = play_group(run, level, recorded, err);
    for (uint32_t i = 0; i < run->load.own_count && status == 0; i++)
        status = play_work(run, i, level, recorded, err);
    return status == 0 && (messages || work) ? mark(run, level, err) : status;
}

/* ---- iterations ---- */

static int iterate(struct tutti_nccl_loaded *run, bool recorded, struct tutti_err *err)
{
    uint32_t level_count = run->player->opts.native ? 1 : run->levels.level_count;
    int status = 0;

    for (uint32_t i = 0; i < run->load.own_count && status == 0; i++) {
        struct tutti_nccl_part *part = &run->parts[i];

        part->message_next = part->launch_next = part->unit_next = 0;
        if (recorded)
            status = tutti_gpu_enter(&part->rank->gpu, err);
        if (recorded && status == 0)
            status = CALL(&part->rank->gpu, event_record, part->begin, part->rank->gpu.stream);
    }
    for (uint32_t level = 0; level < level_count && status == 0; level++)
        status = play_level(run, level, recorded, err);
    run->iteration++;
    return status;
}

/* One that is timed. */
static int iterate_timed(struct tutti_nccl_loaded *run, bool recorded, struct tutti_err *err)
{
    int64_t since_ns = tutti_nccl_now_ns();
    int status = iterate(run, recorded, err);

    run->host_ps += (tutti_nccl_now_ns() - since_ns) * TUTTI_PS_PER_NS;
    run->timed_count++;
    return status;
}

/* Every rank of all processes gives its flag, and gets the greatest of all. */
static int share_flags(struct tutti_nccl_loaded *run, struct tutti_err *err)
{
    int status = tutti_nccl_group_begin(&run->player->library, err);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < run->load.own_count && status == 0; i++) {
        void *flag = (void *)(uintptr_t)run->parts[i].flag;
        struct tutti_nccl_rank *rank = run->parts[i].rank;

        status = tutti_gpu_enter(&rank->gpu, err);
        if (status == 0)
            status = NCCL(run, all_reduce, flag, flag, 1, TUTTI_NCCL_UINT8,
                          tutti_nccl_op(TUTTI_MAX), rank->comm, rank->gpu.stream);
    }
    status = tutti_nccl_group_end(&run->player->library, status, err);
    if (status == 0)
        status = tutti_nccl_settle(run, TUTTI_NCCL_MEETING, err);
    if (status == 0)
        status = mark(run, TUTTI_NCCL_MEETING, err);
    return status < 0 ? status : wait_all(run, err);
}

/* All ranks are here; *ret_ns: since when. Those of one process meet where it waits for them. */
static int meet(struct tutti_nccl_loaded *run, int64_t *ret_ns, struct tutti_err *err)
{
    int status = run->load.group->count > 1 ? share_flags(run, err) : 0;

    *ret_ns = run->opened_ns = tutti_nccl_now_ns();
    return status;
}

static int play_apart(struct tutti_nccl_loaded *run, uint32_t total, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < total && status == 0; i++) {
        bool recorded = run->burst.recorded && i + 1 == total && !run->player->opts.native;
        int64_t began_ns = 0;

        status = meet(run, &began_ns, err);
        if (status == 0)
            status = i < run->burst.warmup_count ? iterate(run, recorded, err)
                                                 : iterate_timed(run, recorded, err);
        if (status == 0)
            status = wait_all(run, err);
        if (i >= run->burst.warmup_count)
            run->took_ps[run->took_count++] = (tutti_nccl_now_ns() - began_ns) * TUTTI_PS_PER_NS;
    }
    return status;
}

static int play_in_a_row(struct tutti_nccl_loaded *run, uint32_t total, struct tutti_err *err)
{
    int64_t began_ns = 0;
    int status = meet(run, &began_ns, err);

    for (uint32_t i = 0; i < run->burst.warmup_count && status == 0; i++)
        status = iterate(run, false, err);
    if (status == 0)
        status = wait_all(run, err);
    if (status == 0)
        status = meet(run, &began_ns, err);
    for (uint32_t i = run->burst.warmup_count; i < total && status == 0; i++)
        status = iterate_timed(
            run, run->burst.recorded && i + 1 == total && !run->player->opts.native, err);
    if (status == 0)
        status = wait_all(run, err);
    run->took_ps[run->took_count++] = (tutti_nccl_now_ns() - began_ns) * TUTTI_PS_PER_NS;
    return status;
}

/* Whether one of the processes has had enough. */
static int ask_all(struct tutti_nccl_loaded *run, struct tutti_err *err)
{
    uint8_t flag = run->burst.enough;
    int status = 0;

    if (run->load.group->count == 1 || !run->load.hooked)
        return 0;
    for (uint32_t i = 0; i < run->load.own_count && status == 0; i++) {
        struct tutti_gpu *gpu = &run->parts[i].rank->gpu;

        status = tutti_gpu_enter(gpu, err);
        if (status == 0)
            status = tutti_gpu_upload(gpu, run->parts[i].flag, &flag, 1, err);
    }
    if (status == 0)
        status = share_flags(run, err);
    if (status == 0)
        status = tutti_gpu_download(&run->parts[0].rank->gpu, &flag, run->parts[0].flag, 1, err);
    run->enough = flag != 0;
    return status;
}

int tutti_nccl_play(struct tutti_nccl_loaded *run, struct tutti_err *err)
{
    uint32_t total = run->burst.warmup_count + run->burst.iteration_count;
    bool settled;
    int status = tutti_nccl_look(run, &settled, err);

    run->took_count = 0;
    run->host_ps = 0;
    run->timed_count = 0;
    run->enough = false;
    if (status == 0)
        status = ask_all(run, err);
    if (status < 0 || run->enough)
        return status;
    status = tutti_nccl_parts_write(run, err);
    if (status == 0)
        status = run->load.meets ? play_apart(run, total, err) : play_in_a_row(run, total, err);
    return status < 0 ? status : tutti_nccl_parts_read(run, err);
}
