/* The backend `sim`: data flow, or by the clock; and an engine for all ranks on the stage where
 * data is carried, or words are to be found for what is wrong; see sim.h. */
#include "sim/sim.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/engine.h"
#include "runtime/record.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/memory/memory.h"
#include "sim/play/clocked.h"
#include "sim/play/drained.h"
#include "sim/play/estimate.h"
#include "sim/play/flow.h"
#include "sim/play/stage.h"
#include "sim/play/start.h"
#include "topo/topo.h"

enum { JITTER_MAX = 1000 }; /* far beyond any machine; keeps stretched times representable */

struct sim {
    struct tutti_backend backend;
    struct tutti_sim_opts opts;
    tutti_ps drain_ps_max; /* see sim/play/drained.h */
    size_t mark;           /* of opts.memory, before this */
};

static const enum tutti_model models[] = {TUTTI_MODEL_ALPHABETA, TUTTI_MODEL_FAIR};

static void sim_close(struct tutti_backend *backend)
{
    struct sim *sim = (struct sim *)backend;
    struct tutti_memory *memory;
    size_t mark;

    if (sim == NULL)
        return;
    memory = sim->opts.memory;
    mark = sim->mark;
    tutti_memory_give(memory, sim);
    tutti_memory_rewind(memory, mark);
}

/* Lets times[at] down to its place in a heap, the latest on top. */
static void sink(tutti_ps *times, uint32_t at, uint32_t count)
{
    tutti_ps time = times[at];

    while (at < count / 2) {
        uint32_t child = 2 * at + 1;

        child += child + 1 < count && times[child + 1] > times[child];
        if (times[child] <= time)
            break;
        times[at] = times[child];
        at = child;
    }
    times[at] = time;
}

/* In place: qsort of libc takes memory. */
static void sort(tutti_ps *times, uint32_t count)
{
    for (uint32_t i = count / 2; i > 0; i--)
        sink(times, i - 1, count);
    for (uint32_t i = count; i > 1; i--) {
        tutti_ps last = times[i - 1];

        times[i - 1] = times[0];
        times[0] = last;
        sink(times, 0, i - 1);
    }
}

/* One play: by data flow as long as that suits, else by the clock, else by an engine on the
 * stage. */
struct show {
    const struct tutti_sim_opts *opts;
    const struct tutti_play *play;
    struct tutti_flow *flow;
    struct tutti_clocked *clocked;
    size_t mark; /* of opts->memory, before flow or clocked */
    bool staged; /* nothing else will do */
    struct tutti_stage stage;
    struct tutti_engine *engine; /* with the stage, once it is needed */
    uint64_t step_count;
    uint64_t played_count; /* iterations, with the warm-ups that were played */
    tutti_ps drain_ps_max; /* of the last play; -1: not known */
};

static tutti_ps launch_ps(const struct tutti_sim_opts *opts)
{
    return opts->protocol != NULL ? opts->protocol->launch_ps : 0;
}

static void show_close(struct show *show)
{
    if (show->engine != NULL)
        tutti_stage_done(&show->stage);
    tutti_engine_free(show->engine);
    tutti_flow_free(show->flow);
    tutti_clocked_free(show->clocked);
}

static bool carries_data(const struct tutti_sim_opts *opts, const struct tutti_play *play)
{
    return opts->carry || (play->in != NULL && play->out != NULL);
}

/* Only the stage moves data: with buffers, all is played there. Token buckets are the network
 * models', which data flow does without. */
static int show_open(struct show *show, const struct tutti_sim_opts *opts,
                     const struct tutti_play *play, struct tutti_err *err)
{
    bool carries = carries_data(opts, play);

    *show = (struct show){.opts = opts,
                          .play = play,
                          .mark = tutti_memory_mark(opts->memory),
                          .staged = carries || opts->compute_ps != NULL};
    if (show->staged || opts->topo->has_bursts)
        return 0;
    return tutti_flow_new(opts, play->schedule, &show->flow, err);
}

static int open_stage(struct show *show, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = show->play->schedule;
    int status = tutti_stage_init(&show->stage, show->opts, show->play, err);

    if (status < 0)
        return status;
    status = tutti_engine_new(schedule, 0, schedule->rank_count, &show->engine, err);
    if (status < 0)
        tutti_stage_done(&show->stage);
    return status;
}

/* `end_ps`, or when the last rank begins: those that have nothing to do end then. */
static tutti_ps no_earlier_than_begun(const struct show *show, tutti_ps end_ps)
{
    for (uint32_t rank = 0; rank < show->play->schedule->rank_count; rank++) {
        tutti_ps at_ps = tutti_rank_begin_ps(show->opts, rank, launch_ps(show->opts));

        end_ps = at_ps > end_ps ? at_ps : end_ps;
    }
    return end_ps;
}

/* What looking takes is given back. */
static int check_fits(const struct tutti_sim_opts *opts, const struct tutti_play *play, bool flows,
                      struct tutti_err *err)
{
    size_t mark = tutti_memory_mark(opts->memory);
    int status = tutti_play_fits(opts, play, flows, err);

    tutti_memory_rewind(opts->memory, mark);
    return status;
}

/* This and the next: 1: played; 0: that does not suit it. */
static int play_flow(struct show *show, uint64_t seed, struct tutti_record *record,
                     tutti_ps *ret_ps, struct tutti_err *err)
{
    int status;

    if (show->flow == NULL)
        return 0;
    status = tutti_flow_play(show->flow, seed, launch_ps(show->opts), record, ret_ps,
                             &show->step_count, err);
    show->drain_ps_max = tutti_flow_drain_ps_max(show->flow);
    if (status != 0)
        return status;
    tutti_flow_free(show->flow);
    show->flow = NULL;
    tutti_memory_rewind(show->opts->memory, show->mark);
    if (record != NULL)
        tutti_record_clear(record);
    return 0;
}

static int play_clocked(struct show *show, uint64_t seed, struct tutti_record *record,
                        tutti_ps *ret_ps, struct tutti_err *err)
{
    int status = 0;

    if (show->staged)
        return 0;
    if (show->clocked == NULL) /* slower than what was weighed at first */
        status = check_fits(show->opts, show->play, false, err);
    if (status == 0 && show->clocked == NULL)
        status = tutti_clocked_new(show->opts, show->play->schedule, &show->clocked, err);
    if (status == 0)
        status = tutti_clocked_play(show->clocked, seed, launch_ps(show->opts), record, ret_ps,
                                    &show->step_count, err);
    if (status == 1) {
        *ret_ps = no_earlier_than_begun(show, *ret_ps);
        show->drain_ps_max = tutti_clocked_drain_ps_max(show->clocked);
    }
    if (status != 0)
        return status;
    tutti_clocked_free(show->clocked);
    show->clocked = NULL;
    tutti_memory_rewind(show->opts->memory, show->mark);
    show->staged = true;
    if (record != NULL)
        tutti_record_clear(record);
    return 0;
}

/* Plays iteration `number` on a clock that starts when the launch is paid for. */
static int play_once(struct show *show, uint64_t number, struct tutti_record *record,
                     tutti_ps *ret_ps, struct tutti_err *err)
{
    uint64_t seed = show->opts->seed + number;
    int status = play_flow(show, seed, record, ret_ps, err);

    if (status == 0 && show->opts->flows)
        return tutti_fail(err, TUTTI_ELACK, "'%s' does not suit data flow",
                          show->play->schedule->name);
    if (status == 0)
        status = play_clocked(show, seed, record, ret_ps, err);
    if (status != 0)
        return status < 0 ? status : 0;
    if (show->opts->memory != NULL)
        return tutti_fail(err, TUTTI_ECHECK,
                          "'%s' cannot be played to its end (a play with memory NULL says why)",
                          show->play->schedule->name);
    if (show->engine == NULL)
        status = open_stage(show, err);
    if (status < 0)
        return status;
    show->drain_ps_max = -1;
    tutti_stage_reset(&show->stage, seed, launch_ps(show->opts));
    show->stage.iteration = show->played_count;
    status = tutti_engine_run(show->engine, &tutti_stage_ops_sim, &show->stage, record, err);
    *ret_ps = no_earlier_than_begun(show, show->stage.now);
    show->step_count = tutti_engine_step_count(show->engine);
    return status;
}

/* What an iteration leaves in state the next one finds. */
static bool leaves_state(const struct tutti_sim_opts *opts, const struct tutti_play *play)
{
    return carries_data(opts, play) && play->schedule->state_bytes > 0;
}

/* How many iterations have to be played: without jitter they are equal, and one is enough. Warm-up
 * iterations leave no trace on a virtual clock, so they are played for their state alone. */
static uint32_t distinct_count(const struct tutti_sim_opts *opts, const struct tutti_play *play)
{
    return tutti_jitter_q32(opts->jitter) == 0 && !leaves_state(opts, play) ? 1
                                                                            : play->iteration_count;
}

static int play_all(struct show *show, tutti_ps *times, struct tutti_err *err)
{
    uint32_t count = distinct_count(show->opts, show->play);
    uint32_t warmup_count = leaves_state(show->opts, show->play) ? show->play->warmup_count : 0;

    for (; show->played_count < warmup_count; show->played_count++) {
        int status = play_once(show, show->played_count, NULL, &times[0], err);

        if (status < 0)
            return status;
    }
    for (uint32_t i = 0; i < count; i++, show->played_count++) {
        struct tutti_record *record = i + 1 == count ? show->play->record : NULL;
        int status = play_once(show, i, record, &times[i], err);

        if (status < 0)
            return status;
    }
    return 0;
}

/* times[count]: the distinct ones; each stands for iteration_count / count. */
static void summarise(const struct tutti_play *play, tutti_ps *times, uint32_t count,
                      struct tutti_played *ret)
{
    struct tutti_wide total_ps = {.high = 0};
    struct tutti_wide rest;
    uint64_t all_ps;

    for (uint32_t i = 0; i < count; i++)
        total_ps = tutti_wide_add_word(total_ps, (uint64_t)times[i]);
    all_ps = tutti_times(tutti_wide_word(total_ps), play->iteration_count / count);
    ret->total_ps = all_ps > INT64_MAX ? INT64_MAX : (tutti_ps)all_ps;
    total_ps = tutti_wide_divide(total_ps, tutti_wide_of(count), &rest);
    ret->best_ps = ret->median_ps = (tutti_ps)total_ps.low;
    if (!play->barrier)
        return;
    sort(times, count);
    ret->best_ps = times[0];
    ret->median_ps = times[count / 2];
}

/* What is played here alone needs no memory but the caller's. */
static int play_check_memory(const struct tutti_sim_opts *opts, const struct tutti_play *play,
                             struct tutti_err *err)
{
    if (opts->memory == NULL || (play->record == NULL && !carries_data(opts, play)))
        return 0;
    return tutti_fail(err, TUTTI_ELACK,
                      "memory of the caller's has no room for %s of '%s' (memory NULL)",
                      play->record != NULL ? "a record" : "the data", play->schedule->name);
}

static int play_check(const struct tutti_sim_opts *opts, const struct tutti_play *play,
                      struct tutti_err *err)
{
    if (play->schedule->rank_count != opts->topo->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "schedule '%s' has '%" PRIu32 "' ranks, but topology '%s' has %" PRIu32
                          " (as many)",
                          play->schedule->name, play->schedule->rank_count, opts->topo->name,
                          opts->topo->rank_count);
    return play_check_memory(opts, play, err);
}

/* Says how much more it takes at least, where that is what was wrong. */
static int refuse_small(const struct tutti_memory *memory, int status, struct tutti_err *err)
{
    if (status != -TUTTI_ENOMEM || memory == NULL || memory->start == NULL ||
        memory->needed <= memory->bytes)
        return status;
    return tutti_fail(
        err, TUTTI_ENOMEM,
        "%zu bytes of memory are too few (%zu at least; a play with memory.start NULL "
        "tells how many)",
        memory->bytes, memory->needed);
}

/* Plays what has been looked at. */
static int play_checked(struct sim *sim, const struct tutti_play *play, tutti_ps *times,
                        struct tutti_played *ret, struct tutti_err *err)
{
    struct tutti_played played = {.total_ps = 0};
    struct show show;
    int status = show_open(&show, &sim->opts, play, err);

    if (status < 0)
        return status;
    if (play->record != NULL)
        tutti_record_clear(play->record);
    status = play_all(&show, times, err);
    show_close(&show);
    if (status < 0)
        return status;
    if (play->record != NULL)
        tutti_record_sort(play->record);
    summarise(play, times, distinct_count(&sim->opts, play), &played);
    played.step_count = show.step_count;
    /* What waits for longer finds more tokens: that tells nothing of slower protocols. */
    sim->drain_ps_max = sim->opts.topo->has_bursts ? -1 : show.drain_ps_max;
    *ret = played;
    return 0;
}

static int sim_play(struct tutti_backend *backend, const struct tutti_play *play,
                    struct tutti_played *ret, struct tutti_err *err)
{
    struct sim *sim = (struct sim *)backend;
    struct tutti_memory *memory = sim->opts.memory;
    size_t mark = tutti_memory_mark(memory);
    tutti_ps *times = NULL;
    int status = play_check(&sim->opts, play, err);

    if (status == 0)
        status = check_fits(&sim->opts, play,
                            !carries_data(&sim->opts, play) && sim->opts.compute_ps == NULL, err);
    if (status == 0) {
        times = tutti_memory_take(memory, distinct_count(&sim->opts, play), sizeof(*times));
        status = times == NULL ? tutti_nomem(err) : play_checked(sim, play, times, ret, err);
    }
    tutti_memory_give(memory, times);
    tutti_memory_rewind(memory, mark);
    return refuse_small(memory, status, err);
}

tutti_ps tutti_sim_drain_ps_max(const struct tutti_backend *backend)
{
    return ((const struct sim *)backend)->drain_ps_max;
}

static int check_starts(const struct tutti_sim_opts *opts, struct tutti_err *err)
{
    for (uint32_t rank = 0; opts->start_ps != NULL && rank < opts->topo->rank_count; rank++) {
        if (opts->start_ps[rank] < 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "rank %" PRIu32 " starts at '%" PRId64 "' ps (0 or more)", rank,
                              opts->start_ps[rank]);
    }
    return 0;
}

static int check_memory(const struct tutti_sim_opts *opts, struct tutti_err *err)
{
    const struct tutti_memory *memory = opts->memory;

    if (memory == NULL || (uintptr_t)memory->start % TUTTI_MEMORY_ALIGN == 0)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "memory is to start at a multiple of '%d' bytes (_Alignas(max_align_t))",
                      TUTTI_MEMORY_ALIGN);
}

static const struct tutti_backend_ops sim_ops = {
    .size = sizeof(struct tutti_backend_ops),
    .name = "sim",
    .close = sim_close,
    .play = sim_play,
};

int tutti_sim_open(const struct tutti_sim_opts *opts, struct tutti_backend **ret,
                   struct tutti_err *err)
{
    struct tutti_sim_opts own;
    struct sim *sim;
    size_t mark;
    int status = tutti_take("tutti_sim_opts", &own, sizeof(own), opts,
                            TUTTI_BYTES_TO(struct tutti_sim_opts, carry), err);

    if (status < 0)
        return status;
    if (own.topo == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "the simulator needs a topology");
    if (!(own.jitter >= 0 && own.jitter <= JITTER_MAX)) /* also refuses NaN */
        return tutti_fail(err, TUTTI_EINVAL, "jitter '%g' is out of range (0 to %d)", own.jitter,
                          JITTER_MAX);
    status = check_starts(&own, err);
    if (status == 0)
        status = check_memory(&own, err);
    if (status < 0)
        return status;
    mark = tutti_memory_mark(own.memory);
    sim = tutti_memory_take(own.memory, 1, sizeof(*sim));
    if (sim == NULL)
        return refuse_small(own.memory, tutti_nomem(err), err);
    sim->mark = mark;
    sim->backend.ops = &sim_ops;
    sim->opts = own;
    sim->drain_ps_max = -1;
    *ret = &sim->backend;
    return 0;
}

int tutti_model_find(const char *name, enum tutti_model *ret, struct tutti_err *err)
{
    static const char words[] = "alphabeta or fair";
    char hint[TUTTI_HINT_BYTES];

    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        if (strcmp(name, tutti_model_name(models[i])) == 0) {
            *ret = models[i];
            return 0;
        }
    }
    return tutti_fail(err, TUTTI_EINVAL, "unknown network model '%s' (%s%s)", name,
                      tutti_nearest_hint(name, words, hint), words);
}

const char *tutti_model_name(enum tutti_model model)
{
    return tutti_net_of(model)->name;
}
