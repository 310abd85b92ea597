/* The backend `nccl` that plays steps of training by streams; see runtime/nccl.h. */
#include "runtime/exec/nccl/streams.h"

#include <stdlib.h>

#include "runtime/group.h"

void tutti_nccl_streams_unload(void *data)
{
    struct tutti_nccl_streams *s = data;

    if (s == NULL)
        return;
    tutti_streams_close(s->streams);
    tutti_nccl_meeting_close(s);
    free(s->gpus);
    free(s->state);
    (void)pthread_mutex_destroy(&s->run.lock);
    free(s->run.took_ps);
    free(s);
}

static int check(const struct tutti_load *load, struct tutti_err *err)
{
    if (load->hooked)
        return tutti_fail(err, TUTTI_ELACK, "streams of the GPU have no hook");
    if (load->lead_ps > 0 && load->group->count > 1)
        return tutti_fail(err, TUTTI_ELACK, "the backend 'nccl' begins without a lead");
    return 0;
}

static int open_streams(struct tutti_nccl_streams *s, struct tutti_err *err)
{
    const struct tutti_load *load = &s->run.load;
    const struct tutti_streams_opts opts = {.gpus = s->gpus,
                                            .first_rank = load->first_rank,
                                            .own_count = load->own_count,
                                            .calls = &tutti_nccl_calls,
                                            .context = s,
                                            .recorded = load->recorded,
                                            .deadline_ps = load->deadline_ps};
    const struct tutti_play play = {.size = sizeof(play),
                                    .schedule = load->schedule,
                                    .iteration_count = 1,
                                    .deadline_ps = load->deadline_ps,
                                    .state = s->state};

    for (uint32_t i = 0; i < load->own_count; i++) {
        s->gpus[i] = &s->run.player->ranks[i].gpu;
        s->state[load->first_rank + i] =
            tutti_handle_address(load->buffers->handles[i][TUTTI_BUF_STATE]);
    }
    return tutti_streams_open(&play, &opts, &s->streams, err);
}

int tutti_nccl_streams_load(struct tutti_player *player, const struct tutti_load *load, void **ret,
                            struct tutti_err *err)
{
    struct tutti_nccl_streams *s = calloc(1, sizeof(*s));
    int status;

    if (s == NULL)
        return tutti_nomem(err);
    s->run.player = (struct tutti_nccl_player *)player;
    s->run.load = *load;
    (void)pthread_mutex_init(&s->run.lock, NULL);
    s->gpus = calloc((size_t)load->own_count + 1, sizeof(s->gpus[0]));
    s->state = calloc((size_t)load->schedule->rank_count + 1, sizeof(s->state[0]));
    status = s->gpus == NULL || s->state == NULL ? tutti_nomem(err) : check(load, err);
    if (status == 0)
        status = tutti_nccl_ranks_open(s->run.player, load, err);
    if (status == 0 && load->own_count > 0)
        status = open_streams(s, err);
    if (status == 0 && load->own_count > 0 && load->group->count > 1)
        status = tutti_nccl_meeting_open(s, err);
    if (status < 0) {
        tutti_nccl_streams_unload(s);
        return status;
    }
    *ret = s;
    return 0;
}

int tutti_nccl_streams_connect(void *data, struct tutti_err *err)
{
    struct tutti_nccl_streams *s = data;
    int status = tutti_nccl_connect(&s->run, err);

    return status < 0 ? status : tutti_nccl_split(&s->run, err);
}

/* ---- play ------------------------------------------------------------------------------------ */

/* Ranks of one process meet where it puts their steps in. */
static int iterate(struct tutti_nccl_streams *s, struct tutti_played *ret, struct tutti_err *err)
{
    int status = s->meeting != NULL ? tutti_nccl_meet(s, err) : 0;

    s->run.opened_ns = tutti_nccl_now_ns();
    return status < 0 ? status : tutti_streams_step(s->streams, 1, ret, err);
}

static int play(struct tutti_nccl_streams *s, struct tutti_err *err)
{
    struct tutti_nccl_loaded *run = &s->run;
    const uint32_t total = run->burst.warmup_count + run->burst.iteration_count;
    bool settled;
    int status = tutti_nccl_look(run, &settled, err);

    run->host_ps = 0;
    run->took_count = 0;
    run->timed_count = 0;
    if (!run->load.meets)
        run->took_ps[run->took_count++] = 0;
    for (uint32_t i = 0; i < total && status == 0; i++) {
        struct tutti_played played;

        status = iterate(s, &played, err);
        if (status < 0 || i < run->burst.warmup_count)
            continue;
        run->host_ps += played.host_ps;
        run->timed_count++;
        if (run->load.meets)
            run->took_ps[run->took_count++] = played.total_ps;
        else
            run->took_ps[0] += played.total_ps;
    }
    return status;
}

int tutti_nccl_streams_start(void *data, const struct tutti_burst *burst, struct tutti_err *err)
{
    struct tutti_nccl_streams *s = data;
    int status = tutti_nccl_begin(&s->run, burst, err);

    if (status == 0)
        status = play(s, err);
    if (status < 0)
        tutti_nccl_give_up(&s->run, status, err);
    return status;
}

int tutti_nccl_streams_times(void *data, struct tutti_times *times, struct tutti_record *record,
                             struct tutti_err *err)
{
    const struct tutti_nccl_streams *s = data;
    const struct tutti_nccl_loaded *run = &s->run;

    for (uint32_t i = 0; i < run->took_count; i++)
        times->took_ps[i] = run->took_ps[i];
    times->step_count = tutti_streams_step_count(s->streams);
    times->host_ps = run->timed_count > 0 ? run->host_ps / (tutti_ps)run->timed_count : 0;
    times->opened_ns = run->opened_ns;
    return record == NULL ? 0
                          : tutti_streams_record(s->streams, record, &times->record_error_ps, err);
}
