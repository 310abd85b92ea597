/* The conformance suite, continued, for backends whose ranks are threads of the host: work that is
 * really done, beside the messages of its rank. Nothing here depends on how long anything takes: a
 * work waits until bytes lie in its rank's output that come only after all other messages. */
#ifndef TUTTI_TESTS_RUNTIME_CONFORMANCE_OVERLAP_H
#define TUTTI_TESTS_RUNTIME_CONFORMANCE_OVERLAP_H

#include <time.h>

#include "tests/runtime/conformance.h"

enum {
    OVERLAP_WORK,     /* lanes */
    OVERLAP_MESSAGES, /* likewise */
    OVERLAP_LANES,
    OVERLAP_TOKEN_BYTES = 3, /* no other message is so short */
    OVERLAP_COUNT = 50000,   /* of all-reduced numbers */
    OVERLAP_TRIES = 20000,   /* a millisecond each */
};

/* Where the token will lie, and in what the work of one rank then ends. */
struct overlap {
    uint64_t token_offset;
    uint32_t failing_rank;
};

/* Another thread writes it meanwhile; it is only waited for. */
__attribute__((no_sanitize("thread"))) static bool overlap_has_come(const volatile char *token)
{
    return token[OVERLAP_TOKEN_BYTES - 1] != 0;
}

static int overlap_run(const struct tutti_work_call *call, struct tutti_err *err)
{
    const struct overlap *overlap = call->work->context;
    const char *token = (const char *)call->out + overlap->token_offset;
    struct timespec pause = {.tv_nsec = 1000000};
    int tries = 0;

    while (!overlap_has_come(token) && tries++ < OVERLAP_TRIES)
        (void)nanosleep(&pause, NULL);
    if (tries > OVERLAP_TRIES)
        return tutti_fail(err, TUTTI_ETIME, "the messages do not go on beside the work");
    if (call->rank == overlap->failing_rank)
        return tutti_fail(err, TUTTI_EINVAL, "no such layer");
    return 0;
}

/* On one lane a work; on another an all-reduce, and then a token to the next rank. */
static struct tutti_schedule *overlap_schedule(uint32_t n, struct overlap *overlap)
{
    const struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                             .dtype = TUTTI_INT32,
                                             .count = OVERLAP_COUNT,
                                             .chunk_bytes = 8 << 10};
    const struct tutti_work work = {.name = "overlaps",
                                    .duration_ps = 50 * TUTTI_PS_PER_MS, /* where emulated */
                                    .run = overlap_run,
                                    .context = overlap};
    const struct tutti_shape shape = tutti_shape_flat(n);
    struct tutti_schedule_desc desc = {.name = "overlap",
                                       .contract = {.collective = TUTTI_CUSTOM},
                                       .rank_count = n,
                                       .lane_count = OVERLAP_LANES,
                                       .work = &work,
                                       .work_count = 1};
    struct tutti_step call = {
        .kind = TUTTI_CALL, .src_buf = TUTTI_BUF_IN, .dst_buf = TUTTI_BUF_OUT};
    const struct tutti_step compute = tutti_step_compute(&work, 0);
    struct tutti_schedule *callee = NULL;
    struct tutti_builder *builder = NULL;
    struct tutti_schedule *s = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_coll_generate("ring", &params, &shape, &callee, &err), err);
    overlap->token_offset = OVERLAP_COUNT * sizeof(int32_t);
    desc.in_bytes = desc.out_bytes = overlap->token_offset + 64;
    desc.scratch_bytes = callee->scratch_bytes;
    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    CHECK_OK(tutti_builder_add_callee(builder, callee, &call.peer, &err), err);
    for (uint32_t rank = 0; rank < n; rank++) {
        struct tutti_step send =
            tutti_step_send((struct tutti_buf_at){TUTTI_BUF_IN, overlap->token_offset},
                            OVERLAP_TOKEN_BYTES, (rank + 1) % n);
        struct tutti_step recv =
            tutti_step_recv((struct tutti_buf_at){TUTTI_BUF_OUT, overlap->token_offset},
                            OVERLAP_TOKEN_BYTES, (rank + n - 1) % n);

        (void)tutti_builder_add(builder, rank, OVERLAP_WORK, &compute, &err);
        (void)tutti_builder_add(builder, rank, OVERLAP_MESSAGES, &call, &err);
        (void)tutti_builder_add(builder, rank, OVERLAP_MESSAGES, &send, &err);
        (void)tutti_builder_add(builder, rank, OVERLAP_MESSAGES, &recv, &err);
    }
    CHECK_OK(tutti_builder_finish(builder, &s, &err), err);
    return s;
}

/* The messages of the rank ended before its work did. */
static void overlap_check_record(const struct tutti_record *record, uint32_t rank)
{
    tutti_ps work_end_ps = 0;
    uint64_t message_count = 0;

    for (size_t i = 0; i < record->event_count; i++) {
        if (record->events[i].rank == rank && record->events[i].kind == TUTTI_COMPUTE)
            work_end_ps = record->events[i].end_ps;
    }
    for (size_t i = 0; i < record->event_count; i++) {
        const struct tutti_event *event = &record->events[i];

        if (event->rank != rank || event->kind != TUTTI_RECV || event->bytes <= OVERLAP_TOKEN_BYTES)
            continue;
        message_count++;
        if (event->end_ps > work_end_ps)
            TEST_FAIL("rank %u: a message of %llu bytes ended %lld ps after the work", rank,
                      (unsigned long long)event->bytes, (long long)(event->end_ps - work_end_ps));
    }
    CHECK(work_end_ps > 0);
    CHECK(message_count > 0);
}

static int overlap_play(struct tutti_backend *backend, const struct tutti_schedule *s,
                        struct tutti_record *record, struct tutti_err *err)
{
    void *in[PERFORMANCE_RANKS_MAX] = {NULL};
    void *out[PERFORMANCE_RANKS_MAX] = {NULL};
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .schedule = s,
                              .in = (const void *const *)in,
                              .out = out,
                              .iteration_count = 1,
                              .record = record};
    struct tutti_played played;
    uint32_t n = s->rank_count;
    uint32_t first = 0;
    uint32_t count = 0;
    int status;

    tutti_backend_ranks(backend, n, &first, &count);
    for (uint32_t rank = 0; rank < n; rank++) {
        in[rank] = calloc(1, (size_t)s->in_bytes);
        out[rank] = calloc(1, (size_t)s->out_bytes);
        for (uint32_t i = 0; i < OVERLAP_COUNT; i++)
            ((int32_t *)in[rank])[i] = (int32_t)(rank + i);
        memset((char *)in[rank] + OVERLAP_COUNT * sizeof(int32_t), 0x77, OVERLAP_TOKEN_BYTES);
    }
    status = tutti_backend_play(backend, &play, &played, err);
    for (uint32_t rank = first; rank < first + count && status == 0; rank++) {
        for (uint32_t i = 0; i < OVERLAP_COUNT; i++) {
            if (((int32_t *)out[rank])[i] != (int32_t)(n * (n - 1) / 2 + n * i))
                TEST_FAIL("rank %u: sum %u is %d", rank, i, ((int32_t *)out[rank])[i]);
        }
        overlap_check_record(record, rank);
    }
    for (uint32_t rank = 0; rank < n; rank++) {
        free(in[rank]);
        free(out[rank]);
    }
    return status;
}

static int overlap_story(uint32_t n, uint32_t failing_rank, struct tutti_err *err)
{
    struct overlap overlap = {.failing_rank = failing_rank};
    struct tutti_schedule *s = overlap_schedule(n, &overlap);
    struct tutti_backend *backend = NULL;
    struct tutti_record record;
    int status;

    tutti_record_init(&record);
    status = subject.open(n, &backend, err);
    if (status == 0)
        status = overlap_play(backend, s, &record, err);
    tutti_backend_close(backend);
    tutti_record_done(&record);
    tutti_schedule_free(s);
    return status;
}

TEST(messages_go_on_while_their_rank_works)
{
    struct tutti_err err = {""};

    for (uint32_t n = 2; n <= 4; n++)
        CHECK_OK(overlap_story(n, UINT32_MAX, &err), err);
}

TEST(work_that_fails_beside_messages_ends_the_play_and_is_named)
{
    struct tutti_err err = {""};

    CHECK_INT(overlap_story(2, 1, &err), -TUTTI_EINVAL);
    if (strstr(err.text, "rank 1, lane 0, step 0 (COMPUTE ") == NULL ||
        strstr(err.text, "work 'overlaps': no such layer") == NULL)
        TEST_FAIL("names not the work: %s", err.text);
}

#endif
