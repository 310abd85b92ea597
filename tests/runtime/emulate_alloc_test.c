/* Emulating on threads, and by processes that share a clock: every allocation made to fail once.
 * The processes are threads here, and their connections pairs of sockets. */
#include "tests/alloc_fail.h"

#include "runtime/coll.h"
#include "runtime/record.h"
#include "runtime/schedule.h"
#include "tests/runtime/emulated.h"
#include "tests/runtime/host_backend.h"
#include "tests/runtime/socket_pairs.h"

static int play_emulated(enum tutti_model model, struct tutti_err *err)
{
    struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts), .model = model};
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_INT32, .count = 12, .channel_count = 1};
    struct tutti_shape shape = tutti_shape_flat(3);
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *backend = NULL;
    struct tutti_record record;
    struct tutti_played played;
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .iteration_count = 2,
                              .barrier = true,
                              .record = &record};
    int status = tutti_coll_generate("ring", &params, &shape, &schedule, err);

    tutti_record_init(&record);
    play.schedule = schedule;
    if (status == 0)
        status = emulated_open("switch:n=3,bw=50GB/s,lat=1us", opts, 0, &backend, err);
    if (status == 0)
        status = tutti_backend_play(backend, &play, &played, err);
    tutti_backend_close(backend);
    tutti_schedule_free(schedule);
    tutti_record_done(&record);
    return status;
}

TEST(emulating_on_threads_fails_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(play_emulated(TUTTI_MODEL_FAIR, &err), err);
    ALLOC_FAIL_EACH(play_emulated(TUTTI_MODEL_ALPHABETA, &err), err);
}

/* ---- processes ---- */

static int open_tcp(struct tutti_shaper *shaper, uint32_t rank_count, void *data,
                    struct tutti_backend **ret, struct tutti_err *err)
{
    struct tutti_tcp_opts tcp = {.size = sizeof(struct tutti_tcp_opts),
                                 .group = data,
                                 .engine = TUTTI_TCP_POLL,
                                 .shaper = shaper};

    (void)rank_count;
    return tutti_tcp_open_with(&tcp, links, ret, err);
}

static int open_emulating(struct tutti_group *group, void *data, struct tutti_backend **ret,
                          struct tutti_err *err)
{
    int status =
        emulated_open_over("switch:n=3,bw=50GB/s,lat=1us", *(const struct tutti_sim_opts *)data,
                           open_tcp, group, ret, err);

    if (status < 0) /* the other would wait for this one */
        tutti_group_stop(group, status, err);
    return status;
}

static int play_by_two(const struct tutti_schedule *schedule, struct tutti_err *err)
{
    struct tutti_sim_opts sim = {.size = sizeof(struct tutti_sim_opts), .model = TUTTI_MODEL_FAIR};

    return play_over_pairs(schedule, open_emulating, &sim, err);
}

TEST(sharing_a_clock_fails_cleanly)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_INT32, .count = 12, .channel_count = 1};
    struct tutti_shape shape = tutti_shape_flat(3);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_coll_generate("ring", &params, &shape, &schedule, &err), err);
    REQUIRE(schedule != NULL);
    ALLOC_FAIL_EACH(play_by_two(schedule, &err), err);
    tutti_schedule_free(schedule);
}
