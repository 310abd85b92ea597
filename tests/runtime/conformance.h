/* The conformance suite: what every backend must do, the same for all. A test program includes it,
 * defines `subject`, and that is all:
 *
 *     #include "tests/runtime/conformance.h"
 *     static const struct conformance_subject subject = {.name = "threads", .open = open_threads};
 *
 * Integers are held against the contract of the collective, floats (bit for bit) against a player
 * of a few lines that moves the data in one thread, records against the programs themselves. */
#ifndef TUTTI_TESTS_RUNTIME_CONFORMANCE_H
#define TUTTI_TESTS_RUNTIME_CONFORMANCE_H

#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/record.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tests/runtime/reference_player.h"
#include "tests/test.h"

/* A backend of several processes runs the suite in all of them alike: they draw the same. */
struct conformance_subject {
    const char *name;
    /* Opens the backend for schedules of `rank_count` ranks; closed by tutti_backend_close. */
    int (*open)(uint32_t rank_count, struct tutti_backend **ret, struct tutti_err *err);
};

static const struct conformance_subject subject; /* defined by the program that includes this */

/* ---- a performance: buffers, what goes in, what must come out ---- */

enum { GUARD_BYTES = 64, PERFORMANCE_RANKS_MAX = 64 };

struct performance {
    struct tutti_schedule *schedule;
    uint32_t first_rank; /* of this process: the outputs of others are looked at by others */
    uint32_t own_count;
    char *memory[4][PERFORMANCE_RANKS_MAX]; /* what malloc gave: in, out, expected, scratch */
    char *in[PERFORMANCE_RANKS_MAX];        /* shifted by one element, to be badly aligned */
    char *out[PERFORMANCE_RANKS_MAX];
    char *expected[PERFORMANCE_RANKS_MAX];
    char *scratch[PERFORMANCE_RANKS_MAX];
};

static void performance_close(struct performance *p)
{
    for (int i = 0; i < 4; i++)
        for (int r = 0; r < PERFORMANCE_RANKS_MAX; r++)
            free(p->memory[i][r]);
    tutti_schedule_free(p->schedule);
    *p = (struct performance){0};
}

/* Small numbers of either sign: no sum of floats overflows, and integers still wrap in 8 bits. */
static void performance_fill(char *at, enum tutti_dtype dtype, uint64_t count, uint64_t seed,
                             uint32_t rank)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bits = tutti_random_hash(seed, rank, i, 0);
        int64_t number = (int64_t)(bits % 2001) - 1000;
        float f32 = (float)number / 7.0f;
        double f64 = (double)number / 7.0;

        if (dtype == TUTTI_FLOAT32)
            memcpy(at + i * 4, &f32, 4);
        else if (dtype == TUTTI_FLOAT64)
            memcpy(at + i * 8, &f64, 8);
        else if (dtype == TUTTI_FLOAT16 || dtype == TUTTI_BFLOAT16)
            memcpy(at + i * 2, &(uint16_t){(uint16_t)(0x3800 + bits % 1024)}, 2); /* near 0.5 */
        else
            memcpy(at + i * tutti_dtype_bytes(dtype), &number, tutti_dtype_bytes(dtype));
    }
}

static bool performance_open(struct performance *p, struct tutti_schedule *schedule, uint64_t seed)
{
    size_t element = tutti_dtype_bytes(schedule->contract.dtype);
    size_t room[4] = {(size_t)schedule->in_bytes, (size_t)schedule->out_bytes,
                      (size_t)schedule->out_bytes, (size_t)schedule->scratch_bytes};
    char **shifted[4] = {p->in, p->out, p->expected, p->scratch};

    p->schedule = schedule;
    for (int i = 0; i < 4; i++) {
        for (uint32_t r = 0; r < schedule->rank_count; r++) {
            p->memory[i][r] = malloc(room[i] + element + GUARD_BYTES);
            if (p->memory[i][r] == NULL)
                return false;
            memset(p->memory[i][r], 0x5a, room[i] + element + GUARD_BYTES);
            shifted[i][r] = p->memory[i][r] + element;
        }
    }
    for (uint32_t r = 0; r < schedule->rank_count; r++)
        performance_fill(p->in[r], schedule->contract.dtype, schedule->in_bytes / element, seed, r);
    return true;
}

static int64_t performance_read(const char *at, enum tutti_dtype dtype)
{
    int32_t i32;
    int64_t i64;

    switch (dtype) {
    case TUTTI_INT32:
        memcpy(&i32, at, 4);
        return i32;
    case TUTTI_INT64:
        memcpy(&i64, at, 8);
        return i64;
    case TUTTI_INT8:
        return (int8_t)*at;
    default:
        return (uint8_t)*at;
    }
}

static int64_t performance_wrap(uint64_t bits, enum tutti_dtype dtype)
{
    char bytes[8];

    memcpy(bytes, &bits, 8);
    return performance_read(bytes, dtype);
}

/* Element `i` of the inputs of all ranks, reduced as the contract says. */
static int64_t performance_reduce(const struct performance *p, uint64_t i)
{
    const struct tutti_contract *c = &p->schedule->contract;
    size_t element = tutti_dtype_bytes(c->dtype);
    int64_t result = performance_read(p->in[0] + i * element, c->dtype);

    for (uint32_t r = 1; r < p->schedule->rank_count; r++) {
        int64_t next = performance_read(p->in[r] + i * element, c->dtype);

        if (c->op == TUTTI_PROD)
            result = performance_wrap((uint64_t)result * (uint64_t)next, c->dtype);
        else if (c->op == TUTTI_MIN)
            result = next < result ? next : result;
        else if (c->op == TUTTI_MAX)
            result = next > result ? next : result;
        else
            result = performance_wrap((uint64_t)result + (uint64_t)next, c->dtype);
    }
    return c->op == TUTTI_AVG ? result / (int64_t)p->schedule->rank_count : result;
}

/* What rank r's output must hold at element i by the contract; false: no matter. */
static bool performance_contract(const struct performance *p, uint32_t r, uint64_t i, int64_t *ret)
{
    const struct tutti_contract *c = &p->schedule->contract;
    size_t element = tutti_dtype_bytes(c->dtype);
    uint32_t n = p->schedule->rank_count;
    uint64_t block = c->count == 0 ? 0 : i / c->count;
    uint64_t within = c->count == 0 ? 0 : i % c->count;

    switch (c->collective) {
    case TUTTI_ALLREDUCE:
        *ret = performance_reduce(p, i);
        return true;
    case TUTTI_REDUCESCATTER:
        *ret = performance_reduce(p, r * c->count + i);
        return true;
    case TUTTI_REDUCE_TO_ROOT:
        *ret = performance_reduce(p, i);
        return r == c->root;
    case TUTTI_ALLGATHER:
        *ret = performance_read(p->in[block] + within * element, c->dtype);
        return true;
    case TUTTI_BROADCAST:
        *ret = performance_read(p->in[c->root] + i * element, c->dtype);
        return true;
    case TUTTI_ALLTOALL:
        *ret = performance_read(p->in[block] + (r * c->count + within) * element, c->dtype);
        return true;
    case TUTTI_SENDRECV:
        *ret = performance_read(p->in[(r + n - 1) % n] + i * element, c->dtype);
        return true;
    default:
        return false;
    }
}

static uint64_t performance_wrong_integers(const struct performance *p)
{
    enum tutti_dtype dtype = p->schedule->contract.dtype;
    size_t element = tutti_dtype_bytes(dtype);
    uint64_t wrong = 0;

    for (uint32_t r = p->first_rank; r < p->first_rank + p->own_count; r++) {
        for (uint64_t i = 0; i < p->schedule->out_bytes / element; i++) {
            int64_t expected;

            wrong += performance_contract(p, r, i, &expected) &&
                     performance_read(p->out[r] + i * element, dtype) != expected;
        }
    }
    return wrong;
}

/* Plays on the reference player into `expected`. */
static int performance_refer(struct performance *p, struct tutti_err *err)
{
    char **bufs[4] = {[TUTTI_BUF_NONE] = p->scratch,
                      [TUTTI_BUF_IN] = p->in,
                      [TUTTI_BUF_OUT] = p->expected,
                      [TUTTI_BUF_SCRATCH] = p->scratch};

    return ref_play(p->schedule, bufs, err);
}

/* Where only the root has an output, others' outputs hold nothing in particular. */
static uint64_t performance_wrong_bytes(const struct performance *p)
{
    const struct tutti_contract *c = &p->schedule->contract;
    uint64_t wrong = 0;

    for (uint32_t r = p->first_rank; r < p->first_rank + p->own_count; r++) {
        if (c->collective == TUTTI_REDUCE_TO_ROOT && r != c->root)
            continue;
        wrong += memcmp(p->out[r], p->expected[r], (size_t)p->schedule->out_bytes) != 0;
    }
    return wrong;
}

/* Inputs as they were, and nothing written outside the outputs. */
static uint64_t performance_damage(const struct performance *p, uint64_t seed)
{
    enum tutti_dtype dtype = p->schedule->contract.dtype;
    size_t element = tutti_dtype_bytes(dtype);
    uint64_t bytes = p->schedule->in_bytes;
    char *again = malloc((size_t)bytes + 8);
    uint64_t damage = again == NULL;

    for (uint32_t r = p->first_rank; r < p->first_rank + p->own_count && again != NULL; r++) {
        performance_fill(again, dtype, bytes / element, seed, r);
        damage += memcmp(again, p->in[r], (size_t)bytes) != 0;
        for (size_t i = 0; i < element; i++)
            damage += p->memory[1][r][i] != 0x5a;
        for (size_t i = 0; i < GUARD_BYTES; i++)
            damage += p->out[r][p->schedule->out_bytes + i] != 0x5a;
    }
    free(again);
    return damage;
}

/* The record that any faithful run leaves, times aside: walked from the programs. */
static uint64_t performance_hash(const struct tutti_schedule *schedule)
{
    struct tutti_record record;
    struct tutti_cursor cursor;
    const struct tutti_step *step;
    uint64_t hash;

    tutti_record_init(&record);
    for (uint32_t rank = 0; rank < schedule->rank_count; rank++) {
        for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
            uint64_t index = 0;

            tutti_cursor_open(&cursor, schedule, rank, lane);
            while ((step = tutti_cursor_next(&cursor)) != NULL) {
                bool peered = step->kind == TUTTI_SEND || step->kind == TUTTI_RECV;
                struct tutti_event event = {
                    .rank = rank,
                    .lane = (uint16_t)lane,
                    .kind = step->kind,
                    .peer = peered ? step->peer : 0,
                    .step = index++,
                    .bytes = step->kind == TUTTI_COMPUTE ? 0 : step->bytes,
                };
                (void)tutti_record_add(&record, &event);
            }
        }
    }
    hash = tutti_record_hash(&record, 0);
    tutti_record_done(&record);
    return hash;
}

static void conformance_say(const struct tutti_schedule *s, const struct tutti_coll_params *params,
                            const char *what)
{
    TEST_FAIL("%s on '%s': %s %s, %u ranks, %s %s, count %" PRIu64
              ", root %u, channels %u, slices %u, slots %u, chunk %" PRIu64,
              what, subject.name, s->name, tutti_collective_name(s->contract.collective),
              s->rank_count, tutti_dtype_name(s->contract.dtype), tutti_op_name(s->contract.op),
              s->contract.count, s->contract.root, params->channel_count, params->slice_count,
              s->slot_count, params->chunk_bytes);
}

/* One play of one schedule, which it takes over, with every check there is. */
static void conformance_play(struct tutti_backend *backend, struct tutti_schedule *schedule,
                             const struct tutti_coll_params *params)
{
    static struct performance p; /* large, and cleared by each close */
    struct tutti_record record;
    struct tutti_played played = {0};
    struct tutti_err err = {{0}};
    uint64_t seed = test_seed + params->count;
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .schedule = schedule,
                              .warmup_count = params->count % 2 == 0,
                              .iteration_count = 1 + (uint32_t)(params->count % 3),
                              .barrier = params->count % 5 < 2,
                              .record = &record};

    tutti_record_init(&record);
    if (!performance_open(&p, schedule, seed)) {
        conformance_say(schedule, params, "out of memory");
        performance_close(&p);
        return;
    }
    tutti_backend_ranks(backend, schedule->rank_count, &p.first_rank, &p.own_count);
    play.in = (const void *const *)p.in;
    play.out = (void *const *)p.out;
    if (tutti_backend_play(backend, &play, &played, &err) != 0)
        conformance_say(schedule, params, err.text);
    else if (performance_refer(&p, &err) != 0)
        conformance_say(schedule, params, err.text);
    else if (performance_wrong_bytes(&p) > 0)
        conformance_say(schedule, params, "not the bytes of the reference");
    else if (params->dtype >= TUTTI_INT32 && performance_wrong_integers(&p) > 0)
        conformance_say(schedule, params, "not the integers of the contract");
    else if (performance_damage(&p, seed) > 0)
        conformance_say(schedule, params, "writes where it must not");
    else if (tutti_record_hash(&record, 0) != performance_hash(schedule))
        conformance_say(schedule, params, "the record has other steps than the programs");
    else if (played.step_count != record.event_count || played.best_ps > played.median_ps ||
             played.best_ps < 0)
        conformance_say(schedule, params, "counts or times that cannot be");
    tutti_record_done(&record);
    performance_close(&p);
}

static struct tutti_coll_params conformance_draw(struct tutti_random *random,
                                                 enum tutti_collective collective, uint32_t n)
{
    static const uint64_t counts[] = {1, 2, 3, 5, 17, 64, 97, 255, 1000, 1023};
    static const uint64_t chunks[] = {0, 64, 200, 1024};

    return (struct tutti_coll_params){
        .collective = collective,
        .dtype = (enum tutti_dtype)tutti_random_below(random, TUTTI_DTYPE_COUNT),
        .op = (enum tutti_op)tutti_random_below(random, TUTTI_OP_COUNT),
        .root = (uint32_t)tutti_random_below(random, n),
        .count = counts[tutti_random_below(random, sizeof(counts) / sizeof(counts[0]))],
        .channel_count = (uint32_t)tutti_random_below(random, 4),
        .chunk_bytes = chunks[tutti_random_below(random, 4)],
        .slice_count = (uint32_t)tutti_random_below(random, 3),
        .slot_count = (uint32_t)tutti_random_below(random, 4),
    };
}

static uint32_t conformance_play_algorithm(const struct tutti_algorithm *algorithm,
                                           struct tutti_random *random, uint32_t n, uint32_t draws)
{
    struct tutti_shape shape = tutti_shape_flat(n);
    struct tutti_backend *backend = NULL;
    struct tutti_err err = {{0}};
    uint32_t plays = 0;

    if (subject.open(n, &backend, &err) != 0) {
        TEST_FAIL("cannot open '%s' for %u ranks: %s", subject.name, n, err.text);
        return 0;
    }
    for (uint32_t c = 0; c < TUTTI_CUSTOM; c++) {
        for (uint32_t i = 0; i < draws && (algorithm->collectives >> c & 1) != 0; i++) {
            struct tutti_coll_params params = conformance_draw(random, (enum tutti_collective)c, n);
            struct tutti_schedule *schedule = NULL;

            /* Some fit no flat shape of n ranks; that they say so is tested with the generators. */
            if (tutti_coll_generate(algorithm->name, &params, &shape, &schedule, &err) != 0)
                continue;
            conformance_play(backend, schedule, &params);
            plays++;
        }
    }
    tutti_backend_close(backend);
    return plays;
}

TEST(every_algorithm_gives_the_bytes_of_its_contract_and_the_record_of_its_programs)
{
    static const uint32_t ranks[] = {1, 2, 3, 4, 5, 7, 8, 16};
    struct tutti_random random;
    size_t algorithm_count;
    const struct tutti_algorithm *algorithms = tutti_algorithms(&algorithm_count);

    tutti_random_seed(&random, test_seed);
    for (size_t a = 0; a < algorithm_count; a++) {
        uint64_t share = 1 + test_fewer() / 20; /* of fewer cases every other number of ranks */
        uint32_t plays = 0;

        for (size_t i = a % share; i < sizeof(ranks) / sizeof(ranks[0]); i += share)
            plays += conformance_play_algorithm(&algorithms[a], &random, ranks[i],
                                                (uint32_t)test_count(40, 2));
        if (plays == 0)
            TEST_FAIL("algorithm '%s' was never played", algorithms[a].name);
    }
}

/* ---- schedules made by hand ---- */

static struct tutti_builder *conformance_builder(uint32_t rank_count, uint32_t lane_count)
{
    struct tutti_schedule_desc desc = {
        .name = "story",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_INT32},
        .rank_count = rank_count,
        .lane_count = lane_count,
        .in_bytes = 64,
        .out_bytes = 64,
        .scratch_bytes = 64,
    };
    struct tutti_builder *builder = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    return builder;
}

static void conformance_step(struct tutti_builder *builder, uint32_t rank, uint32_t lane,
                             enum tutti_step_kind kind, uint32_t peer, uint64_t bytes)
{
    struct tutti_step step = {.kind = (uint8_t)kind,
                              .src_buf = TUTTI_BUF_IN,
                              .dst_buf = TUTTI_BUF_OUT,
                              .peer = peer,
                              .bytes = bytes};
    struct tutti_err err;

    if (kind == TUTTI_SEND)
        step.dst_buf = TUTTI_BUF_NONE;
    if (kind == TUTTI_RECV)
        step.src_buf = TUTTI_BUF_NONE;
    CHECK_OK(tutti_builder_add(builder, rank, lane, &step, &err), err);
}

/* Plays what was built, without buffers; the status, with the message in *err. */
static int conformance_run(struct tutti_builder *builder, struct tutti_backend *backend,
                           struct tutti_record *record, struct tutti_err *err)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_played played;
    int status = tutti_builder_finish(builder, &schedule, err);

    if (status == 0) {
        struct tutti_play play = {.size = sizeof(struct tutti_play),
                                  .schedule = schedule,
                                  .iteration_count = 1,
                                  .deadline_ps = 5 * TUTTI_PS_PER_S,
                                  .record = record};

        status = tutti_backend_play(backend, &play, &played, err);
    }
    tutti_schedule_free(schedule);
    return status;
}

static void conformance_meet(struct tutti_backend *backend)
{
    struct tutti_builder *builder = conformance_builder(2, 1);
    struct tutti_err err = {{0}};

    conformance_step(builder, 0, 0, TUTTI_SEND, 1, 4);
    conformance_step(builder, 1, 0, TUTTI_RECV, 0, 4);
    CHECK_OK(conformance_run(builder, backend, NULL, &err), err);
}

TEST(a_receive_without_a_send_is_named_and_the_backend_plays_on)
{
    struct tutti_builder *builder = conformance_builder(2, 1);
    struct tutti_backend *backend = NULL;
    struct tutti_err err = {{0}};
    int status;

    CHECK_OK(subject.open(2, &backend, &err), err);
    REQUIRE(backend != NULL);
    conformance_step(builder, 0, 0, TUTTI_SEND, 1, 4);
    conformance_step(builder, 1, 0, TUTTI_RECV, 0, 4);
    conformance_step(builder, 1, 0, TUTTI_RECV, 0, 4);
    status = conformance_run(builder, backend, NULL, &err);
    CHECK(status == -TUTTI_ECHECK || status == -TUTTI_ETIME);
    if (strstr(err.text, "rank 1, lane 0, step 1 (RECV") == NULL)
        TEST_FAIL("names no rank, lane and step: %s", err.text);
    conformance_meet(backend);
    tutti_backend_close(backend);
}

TEST(a_send_that_nobody_takes_is_named)
{
    struct tutti_builder *builder = conformance_builder(2, 2);
    struct tutti_backend *backend = NULL;
    struct tutti_err err = {{0}};
    int status;

    CHECK_OK(subject.open(2, &backend, &err), err);
    REQUIRE(backend != NULL);
    conformance_step(builder, 0, 1, TUTTI_SEND, 1, 4);
    status = conformance_run(builder, backend, NULL, &err);
    CHECK(status == -TUTTI_ECHECK || status == -TUTTI_ETIME);
    if (strstr(err.text, "rank 0, lane 1, step 0 (SEND") == NULL)
        TEST_FAIL("names no rank, lane and step: %s", err.text);
    conformance_meet(backend);
    tutti_backend_close(backend);
}

TEST(a_message_of_another_length_is_named)
{
    struct tutti_builder *builder = conformance_builder(2, 1);
    struct tutti_backend *backend = NULL;
    struct tutti_err err = {{0}};

    CHECK_OK(subject.open(2, &backend, &err), err);
    REQUIRE(backend != NULL);
    conformance_step(builder, 0, 0, TUTTI_SEND, 1, 8);
    conformance_step(builder, 1, 0, TUTTI_RECV, 0, 4);
    CHECK_INT(conformance_run(builder, backend, NULL, &err), -TUTTI_ECHECK);
    if (strstr(err.text, "rank 1, lane 0, step 0 (RECV") == NULL)
        TEST_FAIL("names no rank, lane and step: %s", err.text);
    conformance_meet(backend);
    tutti_backend_close(backend);
}

TEST(a_step_outside_its_buffer_is_refused_by_name)
{
    struct tutti_builder *builder = conformance_builder(1, 1);
    struct tutti_backend *backend = NULL;
    struct tutti_err err = {{0}};

    CHECK_OK(subject.open(1, &backend, &err), err);
    REQUIRE(backend != NULL);
    conformance_step(builder, 0, 0, TUTTI_COPY, 0, 65);
    CHECK_INT(conformance_run(builder, backend, NULL, &err), -TUTTI_ECHECK);
    if (strstr(err.text, "rank 0, lane 0, step 0 (COPY") == NULL)
        TEST_FAIL("names no rank, lane and step: %s", err.text);
    tutti_backend_close(backend);
}

TEST(a_computation_takes_its_time)
{
    struct tutti_builder *builder = conformance_builder(2, 2);
    struct tutti_step compute = {.kind = TUTTI_COMPUTE, .duration_ps = 2 * TUTTI_PS_PER_MS};
    struct tutti_backend *backend = NULL;
    struct tutti_record record;
    struct tutti_err err = {{0}};

    CHECK_OK(subject.open(2, &backend, &err), err);
    REQUIRE(backend != NULL);
    tutti_record_init(&record);
    CHECK_OK(tutti_builder_add(builder, 0, 0, &compute, &err), err);
    conformance_step(builder, 0, 0, TUTTI_SEND, 1, 4);
    conformance_step(builder, 1, 0, TUTTI_RECV, 0, 4);
    CHECK_OK(conformance_run(builder, backend, &record, &err), err);
    CHECK_INT(record.event_count, 3);
    for (size_t i = 0; i < record.event_count; i++) {
        const struct tutti_event *event = &record.events[i];

        if (event->kind == TUTTI_COMPUTE)
            CHECK(event->end_ps - event->start_ps >= compute.duration_ps);
        else
            CHECK(event->end_ps >= compute.duration_ps);
    }
    tutti_record_done(&record);
    tutti_backend_close(backend);
}

TEST(wrong_arguments_are_refused)
{
    struct tutti_builder *builder = conformance_builder(1, 1);
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *backend = NULL;
    struct tutti_played played;
    struct tutti_err err = {{0}};
    char buffer[64];
    const void *in[1] = {buffer};
    struct tutti_play play = {.size = sizeof(struct tutti_play), .iteration_count = 1, .in = in};

    CHECK_OK(subject.open(1, &backend, &err), err);
    REQUIRE(backend != NULL);
    conformance_step(builder, 0, 0, TUTTI_COPY, 0, 0);
    CHECK_OK(tutti_builder_finish(builder, &schedule, &err), err);
    play.schedule = schedule;
    CHECK_INT(tutti_backend_play(backend, &play, &played, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "both or neither") != NULL);
    play.in = NULL;
    play.lead_ps = 1;
    CHECK_INT(tutti_backend_play(backend, &play, &played, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "a lead needs a barrier") != NULL);
    play.lead_ps = 0;
    play.iteration_count = 0;
    CHECK_INT(tutti_backend_play(backend, &play, &played, &err), -TUTTI_EINVAL);
    play.iteration_count = 1;
    CHECK_OK(tutti_backend_play(backend, &play, &played, &err), err);
    CHECK_INT(played.step_count, 1);
    tutti_schedule_free(schedule);
    tutti_backend_close(backend);
    tutti_backend_close(NULL);
}

#endif
