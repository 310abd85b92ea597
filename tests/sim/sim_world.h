/* Small worlds for tests of the simulator: a machine in one line, programs step by step. */
#ifndef TUTTI_TESTS_SIM_SIM_WORLD_H
#define TUTTI_TESTS_SIM_SIM_WORLD_H

#include "runtime/record.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/sim.h"
#include "tests/test.h"
#include "topo/topo.h"

enum { WORLD_BYTES = 131072 };

/* A story: who there is, what each does, and what came of it. */
struct story {
    struct tutti_topo *topo;
    struct tutti_builder *builder;
    struct tutti_sim_opts opts;
    uint32_t lane;       /* of the steps that follow */
    uint32_t slot_count; /* 0: the default */
    uint32_t iteration_count;
    bool barrier;
    const void *const *in;
    void *const *out;
    struct tutti_played played;
    struct tutti_err err;
    int status;
    char trace[4096];
};

static inline void story_link(struct tutti_topo_builder *builder, const char *text,
                              enum tutti_link_kind kind)
{
    struct tutti_link link = {.kind = (uint8_t)kind, .cable_count = 1};
    struct tutti_err err = {.text = ""};
    char rate[32];
    char latency[32];

    if (sscanf(text, "%u-%u %31s %31[^,]", &link.from, &link.to, rate, latency) != 4) {
        TEST_FAIL("the test's own world is unreadable: %s", text);
        return;
    }
    CHECK_OK(tutti_read_rate(rate, &link.bytes_per_s, &err), err);
    CHECK_OK(tutti_read_time(latency, &link.latency_ps, &err), err);
    CHECK_OK(tutti_topo_add_cable(builder, &link, &err), err);
}

/* "2 ranks 1 switches, 0-2 50GB/s 1us, 1-2 50GB/s 1us": nodes are numbered, ranks first. */
static inline void story_machine(struct story *story, const char *text, enum tutti_link_kind kind,
                                 uint64_t flops_per_s)
{
    struct tutti_topo_builder *builder = NULL;
    uint32_t rank_count = 0;
    uint32_t switch_count = 0;
    char name[32];

    sscanf(text, "%u ranks %u switches", &rank_count, &switch_count);
    CHECK_OK(tutti_topo_builder_new("world", "a test", &builder, &story->err), story->err);
    for (uint32_t i = 0; i < rank_count + switch_count; i++) {
        bool is_rank = i < rank_count;
        struct tutti_node node = {
            .name = name,
            .rank = is_rank ? i : TUTTI_RANK_NONE,
            .host = UINT32_MAX,
            .kind = is_rank ? TUTTI_NODE_DEVICE : TUTTI_NODE_SWITCH,
            .flops_per_s = is_rank ? flops_per_s : 0,
        };
        uint32_t index;

        snprintf(name, sizeof(name), "%s%u", is_rank ? "gpu" : "switch", i);
        CHECK_OK(tutti_topo_add_node(builder, &node, &index, &story->err), story->err);
    }
    for (const char *at = strchr(text, ','); at != NULL; at = strchr(at + 1, ','))
        story_link(builder, at + 1, kind);
    CHECK_OK(tutti_topo_freeze(builder, &story->topo, &story->err), story->err);
}

static inline struct story story_begin(const char *world)
{
    struct story story = {.iteration_count = 1, .opts = {.model = TUTTI_MODEL_ALPHABETA}};

    story_machine(&story, world, TUTTI_LINK_GENERIC, 0);
    return story;
}

static inline void story_step(struct story *story, uint32_t rank, struct tutti_step step)
{
    if (story->builder == NULL) {
        struct tutti_schedule_desc desc = {
            .name = "story",
            .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_INT32, .op = TUTTI_SUM},
            .rank_count = story->topo->rank_count,
            .lane_count = 2,
            .slot_count = story->slot_count,
            .in_bytes = WORLD_BYTES,
            .out_bytes = WORLD_BYTES,
            .scratch_bytes = WORLD_BYTES,
        };

        CHECK_OK(tutti_builder_new(&desc, &story->builder, &story->err), story->err);
    }
    CHECK_OK(tutti_builder_add(story->builder, rank, story->lane, &step, &story->err), story->err);
}

static inline void sends(struct story *story, uint32_t rank, uint32_t to, uint64_t bytes)
{
    story_step(story, rank,
               (struct tutti_step){
                   .kind = TUTTI_SEND, .peer = to, .src_buf = TUTTI_BUF_IN, .bytes = bytes});
}

static inline void receives(struct story *story, uint32_t rank, uint32_t from, uint64_t bytes)
{
    story_step(story, rank,
               (struct tutti_step){
                   .kind = TUTTI_RECV, .peer = from, .dst_buf = TUTTI_BUF_OUT, .bytes = bytes});
}

/* A RECV into scratch whose bytes the next REDUCE alone reads. */
static inline void receives_fused(struct story *story, uint32_t rank, uint32_t from, uint64_t bytes)
{
    story_step(story, rank,
               (struct tutti_step){.kind = TUTTI_RECV,
                                   .flags = TUTTI_STEP_FUSE,
                                   .peer = from,
                                   .dst_buf = TUTTI_BUF_SCRATCH,
                                   .bytes = bytes});
}

/* out = in + scratch */
static inline void reduces(struct story *story, uint32_t rank, uint64_t bytes)
{
    story_step(story, rank,
               (struct tutti_step){.kind = TUTTI_REDUCE,
                                   .dst_buf = TUTTI_BUF_OUT,
                                   .acc_buf = TUTTI_BUF_IN,
                                   .src_buf = TUTTI_BUF_SCRATCH,
                                   .bytes = bytes});
}

static inline void computes(struct story *story, uint32_t rank, tutti_ps duration_ps,
                            uint64_t flops)
{
    story_step(
        story, rank,
        (struct tutti_step){.kind = TUTTI_COMPUTE, .flops = flops, .duration_ps = duration_ps});
}

static inline void story_print(struct story *story, const struct tutti_record *record)
{
    static const char *const kinds[] = {"", "send", "recv", "reduce", "copy", "compute", "call"};
    size_t used = 0;

    for (size_t i = 0; i < record->event_count && used < sizeof(story->trace); i++) {
        const struct tutti_event *event = &record->events[i];
        char start[TUTTI_UNIT_TEXT_BYTES];
        char end[TUTTI_UNIT_TEXT_BYTES];
        char peer[16] = "";

        if (event->kind == TUTTI_SEND || event->kind == TUTTI_RECV)
            snprintf(peer, sizeof(peer), "%s%u", event->kind == TUTTI_SEND ? "->" : "<-",
                     event->peer);
        used += (size_t)snprintf(
            story->trace + used, sizeof(story->trace) - used, "%s..%s %u %s%s %" PRIu64 " B\n",
            tutti_print_time(event->start_ps, start), tutti_print_time(event->end_ps, end),
            event->rank, kinds[event->kind], peer, event->bytes);
    }
}

/* Plays the story; the machine stays, the programs are used up. */
static inline void story_play(struct story *story)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *backend = NULL;
    struct tutti_record record;
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .iteration_count = story->iteration_count,
                              .barrier = story->barrier,
                              .in = story->in,
                              .out = story->out,
                              .record = &record};

    tutti_record_init(&record);
    story->opts.size = sizeof(story->opts);
    story->opts.topo = story->topo;
    CHECK_OK(tutti_builder_finish(story->builder, &schedule, &story->err), story->err);
    story->builder = NULL;
    play.schedule = schedule;
    story->status = tutti_sim_open(&story->opts, &backend, &story->err);
    if (story->status == 0)
        story->status = tutti_backend_play(backend, &play, &story->played, &story->err);
    if (story->status == 0)
        story_print(story, &record);
    tutti_backend_close(backend);
    tutti_schedule_free(schedule);
    tutti_record_done(&record);
}

static inline void story_end(struct story *story)
{
    tutti_builder_free(story->builder);
    tutti_topo_free(story->topo);
}

/* Plays and compares: one line an event, by the time it ended. */
#define EXPECT(story, lines)                     \
    do {                                         \
        story_play(story);                       \
        CHECK_OK((story)->status, (story)->err); \
        CHECK_TEXT((story)->trace, lines);       \
    } while (0)

#define EXPECT_REFUSED(story, code, message)    \
    do {                                        \
        story_play(story);                      \
        CHECK_INT((story)->status, -(code));    \
        CHECK_TEXT((story)->err.text, message); \
    } while (0)

#endif
