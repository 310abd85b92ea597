/* Emulating on threads, and by processes that share a clock: every allocation made to fail once.
 * The processes are threads here, and their connections pairs of sockets. */
#include "tests/alloc_fail.h"

#include "runtime/coll.h"
#include "runtime/record.h"
#include "runtime/schedule.h"
#include "tests/emulated.h"
#include "tests/socket_pairs.h"
#include "tests/troupe.h"

static int play_emulated(enum tutti_model model, struct tutti_err *err)
{
    struct tutti_sim_opts opts = {.model = model};
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_INT32, .count = 12, .channel_count = 1};
    struct tutti_shape shape = tutti_shape_flat(3);
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *backend = NULL;
    struct tutti_record record;
    struct tutti_played played;
    struct tutti_play play = {.iteration_count = 2, .barrier = true, .record = &record};
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

/* The backend of one process, with the machine that it emulates. */
struct owner {
    struct tutti_backend backend;
    struct tutti_backend *tcp;
    struct tutti_shaper *shaper;
    struct tutti_topo *topo;
};

static void owner_close(struct tutti_backend *backend)
{
    struct owner *owner = (struct owner *)backend;

    tutti_backend_close(owner->tcp);
    tutti_shaper_close(owner->shaper);
    tutti_topo_free(owner->topo);
    free(owner);
}

static int owner_play(struct tutti_backend *backend, const struct tutti_play *play,
                      struct tutti_played *ret, struct tutti_err *err)
{
    return tutti_backend_play(((struct owner *)backend)->tcp, play, ret, err);
}

static const struct tutti_backend_ops owner_ops = {
    .size = sizeof(struct tutti_backend_ops),
    .name = "tcp, emulating",
    .close = owner_close,
    .play = owner_play,
};

static int open_owner(struct tutti_crew *crew, void *data, struct tutti_backend **ret,
                      struct tutti_err *err)
{
    struct owner *owner = calloc(1, sizeof(*owner));
    struct tutti_tcp_opts tcp = {.crew = crew, .engine = TUTTI_TCP_POLL};
    struct tutti_sim_opts sim = *(const struct tutti_sim_opts *)data;
    int status;

    if (owner == NULL) {
        status = tutti_nomem(err);
        tutti_crew_stop(crew, status, err); /* the other would wait for this one */
        return status;
    }
    owner->backend.ops = &owner_ops;
    status = tutti_topo_from_spec("switch:n=3,bw=50GB/s,lat=1us", &owner->topo, err);
    sim.topo = owner->topo;
    if (status == 0)
        status = tutti_sim_shaper_open(&sim, &owner->shaper, err);
    tcp.shaper = owner->shaper;
    if (status < 0)
        tutti_crew_stop(crew, status, err);
    if (status == 0)
        status = tutti_tcp_open_with(&tcp, links, &owner->tcp, err);
    if (status < 0)
        owner_close(&owner->backend);
    else
        *ret = &owner->backend;
    return status;
}

static int play_by_two(const struct tutti_schedule *schedule, struct tutti_err *err)
{
    struct tutti_sim_opts sim = {.model = TUTTI_MODEL_FAIR};
    struct tutti_backend *backend = NULL;
    struct tutti_record record;
    struct tutti_played played;
    struct tutti_play play = {
        .schedule = schedule, .iteration_count = 2, .barrier = true, .record = &record};
    int status = troupe_open(2, open_owner, &sim, &backend, err);

    tutti_record_init(&record);
    if (status == 0)
        status = tutti_backend_play(backend, &play, &played, err);
    tutti_backend_close(backend);
    tutti_record_done(&record);
    drop_pairs();
    return status;
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
