/* Levels: a backend of a few lines that plays by them, in random order wherever they leave it open,
 * passes the conformance suite; and the levels of schedules made by hand. */
#include "runtime/exec/levels.h"
#include "runtime/exec/program.h"
#include "tests/runtime/conformance.h"

/* ---- the backend ---- */

/* Something that is done at one point of the order: a message by its RECV, or a step. */
struct move {
    struct tutti_level_stage at;
    uint32_t rank;
    uint32_t lane;
    uint64_t index;
    uint64_t shuffle; /* the order of moves of one stage */
    const struct tutti_step *step;
    const struct tutti_step *send; /* of a RECV */
    char *staging;                 /* of a RECV with FUSE, and of the REDUCE behind it */
};

struct by_levels {
    const struct tutti_schedule *schedule;
    struct tutti_levels levels;
    struct tutti_program program;
    struct move *moves;
    size_t move_count;
    char *buffers[PERFORMANCE_RANKS_MAX][TUTTI_BUF_COUNT];
    char *memory[PERFORMANCE_RANKS_MAX][TUTTI_BUF_COUNT]; /* ours to free */
};

static int by_order(const void *left, const void *right)
{
    const struct move *a = left;
    const struct move *b = right;

    if (a->at.level != b->at.level)
        return a->at.level < b->at.level ? -1 : 1;
    if (a->at.stage != b->at.stage)
        return a->at.stage < b->at.stage ? -1 : 1;
    return (a->shuffle > b->shuffle) - (a->shuffle < b->shuffle);
}

static const struct tutti_program_lane *lane_of(const struct by_levels *b, uint32_t rank,
                                                uint32_t lane)
{
    return &b->program.lanes[rank * b->schedule->lane_count + lane];
}

/* Number `k` of the SENDs of a lane to a rank. */
static const struct tutti_step *find_send(const struct by_levels *b, uint32_t from, uint32_t to,
                                          uint32_t lane, uint64_t k)
{
    const struct tutti_program_lane *program = lane_of(b, from, lane);

    for (uint64_t i = 0; i < program->step_count; i++)
        if (program->steps[i].kind == TUTTI_SEND && program->steps[i].peer == to && k-- == 0)
            return &program->steps[i];
    return NULL;
}

static void collect_lane(struct by_levels *b, uint32_t rank, uint32_t lane)
{
    const struct tutti_program_lane *program = lane_of(b, rank, lane);
    uint64_t received[PERFORMANCE_RANKS_MAX] = {0};
    char *staging = NULL;

    for (uint64_t i = 0; i < program->step_count; i++) {
        const struct tutti_step *step = &program->steps[i];
        struct move *move = &b->moves[b->move_count];

        if (step->kind == TUTTI_SEND)
            continue;
        *move = (struct move){
            .at = b->levels.stages[b->levels.step_first[rank * b->schedule->lane_count + lane] + i],
            .rank = rank,
            .lane = lane,
            .index = i,
            .shuffle = tutti_random_hash(test_seed, rank, lane, i),
            .step = step,
            .staging = staging,
        };
        staging = NULL;
        if (step->kind == TUTTI_RECV)
            move->send = find_send(b, step->peer, rank, lane, received[step->peer]++);
        if ((step->flags & TUTTI_STEP_FUSE) != 0)
            staging = move->staging = malloc((size_t)step->bytes + 1);
        b->move_count++;
    }
}

static char *place(const struct by_levels *b, uint32_t rank, unsigned buf, uint64_t offset)
{
    return b->buffers[rank][buf] + offset;
}

static void do_move(const struct by_levels *b, const struct move *move)
{
    const struct tutti_step *step = move->step;
    const struct tutti_reduction r = tutti_step_reduction(b->schedule, step);
    char *dst = place(b, move->rank, step->dst_buf, step->dst_offset);
    const char *src = place(b, move->rank, step->src_buf, step->src_offset);
    size_t bytes = (size_t)step->bytes;

    if (step->kind == TUTTI_RECV) {
        src = place(b, step->peer, move->send->src_buf, move->send->src_offset);
        if (bytes > 0)
            memmove(move->staging != NULL ? move->staging : dst, src, bytes);
    } else if (step->kind == TUTTI_REDUCE) {
        tutti_reduce(r.dtype, r.op, dst, place(b, move->rank, step->acc_buf, step->acc_offset),
                     move->staging != NULL ? move->staging : src,
                     bytes / tutti_dtype_bytes(r.dtype));
    } else if (step->kind == TUTTI_COPY && bytes > 0) {
        memmove(dst, src, bytes);
    }
    if (step->kind != TUTTI_COMPUTE && (step->flags & TUTTI_STEP_LAST) != 0)
        tutti_finish(r.dtype, r.op, dst, bytes / tutti_dtype_bytes(r.dtype), r.divisor);
    if (move->staging != NULL && step->kind == TUTTI_REDUCE)
        free(move->staging);
}

/* A clock that counts: a move takes a unit, a computation what it says. */
static int record(const struct by_levels *b, struct tutti_record *record)
{
    tutti_ps now_ps = 0;
    int status = 0;

    for (size_t i = 0; i < b->move_count; i++) {
        const struct move *move = &b->moves[i];
        const struct tutti_step *step = move->step;
        struct tutti_event event = {.start_ps = now_ps,
                                    .end_ps = now_ps + 1 +
                                              (step->kind == TUTTI_COMPUTE ? step->duration_ps : 0),
                                    .rank = move->rank,
                                    .lane = (uint16_t)move->lane,
                                    .kind = step->kind,
                                    .peer = step->kind == TUTTI_RECV ? step->peer : 0,
                                    .step = move->index,
                                    .bytes = step->kind == TUTTI_COMPUTE ? 0 : step->bytes};

        now_ps = event.end_ps;
        status |= tutti_record_add(record, &event);
        if (move->send == NULL)
            continue;
        event.rank = step->peer;
        event.kind = TUTTI_SEND;
        event.peer = move->rank;
        event.step = (uint64_t)(move->send - lane_of(b, step->peer, move->lane)->steps);
        status |= tutti_record_add(record, &event);
    }
    return status;
}

static int open_buffers(struct by_levels *b, const struct tutti_play *play)
{
    for (uint32_t r = 0; r < b->schedule->rank_count; r++) {
        struct tutti_buf_sizes sizes;

        tutti_schedule_buf_sizes(b->schedule, r, &sizes);
        for (int buf = TUTTI_BUF_IN; buf < TUTTI_BUF_COUNT; buf++) {
            b->memory[r][buf] =
                calloc(1, (size_t)tutti_buf_size_of(&sizes, (enum tutti_buf)buf) + 8);
            if (b->memory[r][buf] == NULL)
                return -TUTTI_ENOMEM;
            b->buffers[r][buf] = b->memory[r][buf];
        }
        b->buffers[r][TUTTI_BUF_NONE] = b->memory[r][TUTTI_BUF_SCRATCH];
        if (play->in == NULL)
            continue;
        b->buffers[r][TUTTI_BUF_IN] = (char *)(uintptr_t)play->in[r];
        b->buffers[r][TUTTI_BUF_OUT] = play->out[r];
    }
    return 0;
}

static int play_by_levels(struct tutti_backend *backend, const struct tutti_play *play,
                          struct tutti_played *ret, struct tutti_err *err)
{
    struct by_levels b = {.schedule = play->schedule};
    int status =
        tutti_program_open(&b.program, b.schedule, 0, b.schedule->rank_count, 1 << 28, err);

    (void)backend;
    if (status == 0)
        status = tutti_levels_open(&b.levels, b.schedule, err);
    if (status == 0) {
        b.moves = calloc((size_t)b.program.step_count + 1, sizeof(*b.moves));
        status = b.moves == NULL ? -TUTTI_ENOMEM : open_buffers(&b, play);
    }
    for (uint32_t i = 0; i < b.levels.lane_total && status == 0; i++)
        collect_lane(&b, i / b.schedule->lane_count, i % b.schedule->lane_count);
    if (b.move_count > 0)
        qsort(b.moves, b.move_count, sizeof(*b.moves), by_order);
    for (size_t i = 0; i < b.move_count && status == 0; i++)
        do_move(&b, &b.moves[i]);
    if (status == 0 && play->record != NULL) {
        tutti_record_clear(play->record);
        status = record(&b, play->record);
    }
    *ret = (struct tutti_played){.step_count = b.program.step_count};
    for (uint32_t r = 0; r < PERFORMANCE_RANKS_MAX; r++)
        for (int buf = 0; buf < TUTTI_BUF_COUNT; buf++)
            free(b.memory[r][buf]);
    free(b.moves);
    tutti_levels_close(&b.levels);
    tutti_program_close(&b.program);
    return status;
}

static void close_by_levels(struct tutti_backend *backend)
{
    free(backend);
}

static int open_by_levels(uint32_t rank_count, struct tutti_backend **ret, struct tutti_err *err)
{
    static const struct tutti_backend_ops ops = {
        .size = sizeof(ops), .name = "levels", .close = close_by_levels, .play = play_by_levels};
    struct tutti_backend *backend = calloc(1, sizeof(*backend));

    (void)rank_count;
    if (backend == NULL)
        return tutti_nomem(err);
    backend->ops = &ops;
    *ret = backend;
    return 0;
}

static const struct conformance_subject subject = {.name = "levels", .open = open_by_levels};

/* ---- by hand ---- */

/* "level.stage" of the steps of a lane, one after the other. */
static void expect_stages(struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                          const char *expected)
{
    struct tutti_levels levels = {0};
    struct tutti_err err = {{0}};
    char text[512] = "";

    CHECK_OK(tutti_levels_open(&levels, schedule, &err), err);
    REQUIRE(levels.stages != NULL);
    for (uint64_t i = levels.step_first[rank * schedule->lane_count + lane];
         i < levels.step_first[rank * schedule->lane_count + lane + 1]; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u.%u",
                       text[0] == '\0' ? "" : " ", levels.stages[i].level, levels.stages[i].stage);
    if (strcmp(text, expected) != 0)
        TEST_FAIL("rank %u, lane %u: %s instead of %s", rank, lane, text, expected);
    tutti_levels_close(&levels);
}

static struct tutti_schedule *read_schedule(const char *text)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {{0}};

    CHECK_OK(tutti_schedule_parse("story", text, strlen(text), &schedule, &err), err);
    return schedule;
}

static struct tutti_schedule *generate(const char *algorithm, uint32_t rank_count)
{
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .op = TUTTI_SUM,
                                       .count = 1024,
                                       .channel_count = 1};
    struct tutti_shape shape = tutti_shape_flat(rank_count);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {{0}};

    CHECK_OK(tutti_coll_generate(algorithm, &params, &shape, &schedule, &err), err);
    return schedule;
}

TEST(the_levels_are_the_rounds_of_the_price)
{
    static const char *const names[] = {
        "ring", "two-shot", "one-shot", "recursive-doubling", "halving-doubling", "binomial"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct tutti_schedule *schedule = generate(names[i], 8);
        struct tutti_levels levels = {0};
        struct tutti_price price = {0};
        struct tutti_err err = {{0}};

        CHECK_OK(tutti_levels_open(&levels, schedule, &err), err);
        CHECK_OK(tutti_schedule_price(schedule, &price, &err), err);
        if (levels.level_count != price.round_count + 1)
            TEST_FAIL("%s: %u levels, %llu rounds", names[i], levels.level_count,
                      (unsigned long long)price.round_count);
        tutti_levels_close(&levels);
        tutti_schedule_free(schedule);
    }
}

TEST(a_ring_sends_and_receives_in_every_level_and_one_shot_in_one)
{
    struct tutti_schedule *ring = generate("ring", 3);
    struct tutti_schedule *one_shot = generate("one-shot", 4);

    expect_stages(ring, 1, 0, "1.0 1.0 1.1 2.0 2.0 2.1 3.0 3.0 4.0 4.0");
    expect_stages(one_shot, 0, 0, "1.0 1.0 1.0 1.0 1.1 1.0 1.2 1.0 1.3");
    tutti_schedule_free(ring);
    tutti_schedule_free(one_shot);
}

/* What comes second must wait where the lane still reads what came first, and there alone. */
TEST(a_receive_is_of_the_next_level_where_its_bytes_are_in_use)
{
    static const struct {
        const char *second;
        const char *expected;
    } cases[] = {{"out+0", "1.0 1.1 2.0"}, {"out+16", "1.0 1.1 1.0"}, {"out+4", "1.0 1.1 2.0"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        struct tutti_schedule *schedule;

        (void)snprintf(
            text, sizeof(text),
            "schedule story\ncontract custom int32 sum count 1\nranks 2\nin 64 B\nout 64 B\n"
            "rank 0 lane 0\n SEND in+0 8 B to 1\n SEND in+8 8 B to 1\n"
            "rank 1 lane 0\n RECV out+0 8 B from 0\n COPY out+8 = out+0 8 B\n"
            " RECV %s 8 B from 0\n",
            cases[i].second);
        schedule = read_schedule(text);
        REQUIRE(schedule != NULL);
        expect_stages(schedule, 1, 0, cases[i].expected);
        tutti_schedule_free(schedule);
    }
}

/* The second message is sent from where the first has been received and then copied to. */
TEST(what_depends_on_a_send_comes_after_its_message)
{
    struct tutti_schedule *schedule =
        read_schedule("schedule story\ncontract custom int32 sum count 1\nranks 2\nlanes 2\n"
                      "in 64 B\nout 64 B\n"
                      "rank 0 lane 0\n SEND out+0 8 B to 1\n"
                      "rank 0 lane 1\n COPY out+0 = in+0 8 B after lane 0 step 0\n"
                      "rank 1 lane 0\n RECV out+0 8 B from 0\n");

    REQUIRE(schedule != NULL);
    expect_stages(schedule, 0, 0, "1.0");
    expect_stages(schedule, 0, 1, "1.1");
    tutti_schedule_free(schedule);
}
