/* The schedules that a GPU is measured by, whose lanes are blocks of threads; see local.h. */
#include <string.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tools/local/local.h"

enum {
    HOPS = 32,
    BYTES_FIRST = 48 << 10, /* of an operand of a rank, */
    BYTES_RATIO = 4,        /* and each four times the one before */
    SUMMANDS = 4,
    LANES_MAX = 16,
};

/* What the ranks do with each lane's part of their bytes. */
enum what {
    NOTHING, /* an operation of no bytes */
    STEPS,   /* and many, one after the other */
    HOP,     /* small messages of the input go round: a counter each */
    RELAY,   /* what came is sent on: by lines */
    COPY,
    SUM,     /* of two, */
    SUM_OF,  /* and of several operands */
    MESSAGE, /* the input goes round, each part once */
};

struct shape {
    const char *name;
    enum what what;
    uint32_t ranks; /* 0: all */
    uint32_t lanes;
};

/* Sizes do not matter. */
static const struct shape smalls[] = {
    {"nothing-1", NOTHING, 1, 1},
    {"nothing", NOTHING, 0, 1},
    {"nothing-wide", NOTHING, 0, LANES_MAX},
    {"steps", STEPS, 0, 1},
    {"hops", HOP, 0, 1},
    {"relay", RELAY, 0, 1},
};

/* At each size. */
static const struct shape larges[] = {
    {"copy-1", COPY, 1, 1},
    {"copy", COPY, 0, 1},
    {"copy-4", COPY, 0, 4},
    {"copy-wide", COPY, 0, LANES_MAX},
    {"sum-1", SUM, 1, 1},
    {"sum-4", SUM, 0, 4},
    {"sum-wide", SUM, 0, LANES_MAX},
    {"sums-1", SUM_OF, 1, 1},
    {"sums-wide", SUM_OF, 0, LANES_MAX},
    {"message-4", MESSAGE, 0, 4},
    {"message-wide", MESSAGE, 0, LANES_MAX},
};

struct making {
    struct tutti_builder *builder;
    uint32_t rank;
    uint32_t lane;
    uint64_t offset; /* of the lane's part */
    uint64_t bytes;
    uint64_t operand; /* bytes from one operand of the input to the next */
    int status;
    struct tutti_err *err;
};

static void add(struct making *m, struct tutti_step step)
{
    if (m->status == 0)
        m->status = tutti_builder_add(m->builder, m->rank, m->lane, &step, m->err);
}

static void add_copy(struct making *m)
{
    add(m, (struct tutti_step){.kind = TUTTI_COPY,
                               .dst_buf = TUTTI_BUF_OUT,
                               .src_buf = TUTTI_BUF_IN,
                               .dst_offset = m->offset,
                               .src_offset = m->offset,
                               .bytes = m->bytes});
}

/* out = the first operand + the second + ... */
static void add_sum(struct making *m, uint32_t operands)
{
    for (uint32_t i = 1; i < operands; i++)
        add(m, (struct tutti_step){.kind = TUTTI_REDUCE,
                                   .flags = i + 1 == operands ? TUTTI_STEP_LAST : 0,
                                   .dst_buf = TUTTI_BUF_OUT,
                                   .acc_buf = i == 1 ? TUTTI_BUF_IN : TUTTI_BUF_OUT,
                                   .src_buf = TUTTI_BUF_IN,
                                   .dst_offset = m->offset,
                                   .acc_offset = m->offset,
                                   .src_offset = m->offset + i * m->operand,
                                   .bytes = m->bytes});
}

static void add_message(struct making *m, uint32_t rank_count, enum tutti_buf from)
{
    add(m, (struct tutti_step){.kind = TUTTI_SEND,
                               .src_buf = (uint8_t)from,
                               .peer = (m->rank + 1) % rank_count,
                               .src_offset = m->offset,
                               .bytes = m->bytes});
    add(m, (struct tutti_step){.kind = TUTTI_RECV,
                               .dst_buf = TUTTI_BUF_OUT,
                               .peer = (m->rank + rank_count - 1) % rank_count,
                               .dst_offset = m->offset,
                               .bytes = m->bytes});
}

/* What each rank has added to it goes on. */
static void add_relay(struct making *m, uint32_t rank_count)
{
    add_sum(m, 2);
    for (uint32_t i = 0; i < HOPS; i++) {
        add(m, (struct tutti_step){.kind = TUTTI_SEND,
                                   .src_buf = TUTTI_BUF_OUT,
                                   .peer = (m->rank + 1) % rank_count,
                                   .src_offset = m->offset,
                                   .bytes = m->bytes});
        add(m, (struct tutti_step){.kind = TUTTI_RECV,
                                   .flags = TUTTI_STEP_FUSE,
                                   .dst_buf = TUTTI_BUF_SCRATCH,
                                   .peer = (m->rank + rank_count - 1) % rank_count,
                                   .dst_offset = m->offset,
                                   .bytes = m->bytes});
        add(m, (struct tutti_step){.kind = TUTTI_REDUCE,
                                   .dst_buf = TUTTI_BUF_OUT,
                                   .acc_buf = TUTTI_BUF_IN,
                                   .src_buf = TUTTI_BUF_SCRATCH,
                                   .dst_offset = m->offset,
                                   .acc_offset = m->offset,
                                   .src_offset = m->offset,
                                   .bytes = m->bytes});
    }
}

static void add_all(struct making *m, enum what what, uint32_t rank_count)
{
    switch (what) {
    case NOTHING:
    case COPY:
        add_copy(m);
        return;
    case STEPS:
        for (uint32_t i = 0; i < HOPS; i++)
            add_copy(m);
        return;
    case HOP:
        for (uint32_t i = 0; i < HOPS; i++)
            add_message(m, rank_count, TUTTI_BUF_IN);
        return;
    case RELAY:
        add_relay(m, rank_count);
        return;
    case SUM:
    case SUM_OF:
        add_sum(m, what == SUM ? 2 : SUMMANDS);
        return;
    case MESSAGE:
        add_message(m, rank_count, TUTTI_BUF_IN);
        return;
    }
}

static uint64_t operands_of(enum what what)
{
    return what == SUM_OF ? SUMMANDS : what == SUM || what == RELAY ? 2 : 1;
}

/* `bytes` of an operand of a rank, shared out over its lanes; small ones have 64 a lane. */
static int make(const struct tutti_local_ask *ask, const struct shape *shape, uint64_t bytes,
                struct tutti_local_points *points, struct tutti_err *err)
{
    uint32_t ranks = shape->ranks > 0 ? shape->ranks : ask->rank_count;
    uint64_t part = bytes > 0 ? bytes / shape->lanes / 64 * 64 : 64;
    uint64_t operand = part * shape->lanes;
    struct tutti_schedule_desc desc = {
        .name = "probe",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = ask->dtype, .op = ask->op},
        .rank_count = ranks,
        .lane_count = shape->lanes,
        .in_bytes = operands_of(shape->what) * operand,
        .out_bytes = operand,
        .scratch_bytes = operand,
    };
    struct making m = {.bytes = shape->what == NOTHING ? 0 : part, .operand = operand, .err = err};
    struct tutti_local_point *point = &points->points[points->count];
    int status = tutti_builder_new(&desc, &m.builder, err);

    if (status < 0)
        return status;
    for (m.rank = 0; m.rank < ranks; m.rank++) {
        for (m.lane = 0; m.lane < shape->lanes; m.lane++) {
            m.offset = m.lane * part;
            add_all(&m, shape->what, ranks);
        }
    }
    if (m.status < 0) {
        tutti_builder_free(m.builder);
        return m.status;
    }
    *point = (struct tutti_local_point){
        .what = shape->name, .bytes = bytes > 0 ? operand : 0, .rank_count = ranks};
    status = tutti_builder_finish(m.builder, &point->schedule, err);
    points->count += status == 0;
    return status;
}

static bool fits(const struct tutti_local_ask *ask, const struct shape *shape)
{
    bool passes = shape->what == HOP || shape->what == RELAY || shape->what == MESSAGE;

    return !passes || ask->rank_count > 1;
}

int tutti_local_points_make_blocks(const struct tutti_local_ask *ask, uint32_t capacity,
                                   struct tutti_local_points *points, struct tutti_err *err)
{
    int status = 0;

    for (size_t i = 0; i < sizeof(smalls) / sizeof(smalls[0]) && status == 0; i++)
        if (fits(ask, &smalls[i]) && points->count < capacity)
            status = make(ask, &smalls[i], 0, points, err);
    for (uint64_t bytes = BYTES_FIRST; bytes <= ask->bytes_max && status == 0; bytes *= BYTES_RATIO)
        for (size_t i = 0; i < sizeof(larges) / sizeof(larges[0]) && status == 0; i++)
            if (fits(ask, &larges[i]) && points->count < capacity)
                status = make(ask, &larges[i], bytes, points, err);
    return status;
}
