/* Jobs that share links: two equal ones have half each; random ones are held against a play of all
 * their messages. */
#include <math.h>

#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/jobs.h"
#include "sim/sim.h"
#include "tests/alloc_fail.h"
#include "topo/topo.h"

enum { RANKS_MAX = 16 };

static const tutti_ps US = TUTTI_PS_PER_US;

static struct tutti_topo *machine(const char *spec)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    return topo;
}

/* Two pairs of ranks, 0 and 1 here, 2 and 3 there, and one cable of 10 GB/s without latency. */
static struct tutti_topo *dumbbell(void)
{
    static const char text[] = "topology dumbbell\n"
                               "node a0 device host=0\nnode a1 device host=0\n"
                               "node b0 device host=1\nnode b1 device host=1\n"
                               "node sa switch\nnode sb switch\n"
                               "cable a0 sa net 100GB/s 0ns\ncable a1 sa net 100GB/s 0ns\n"
                               "cable b0 sb net 100GB/s 0ns\ncable b1 sb net 100GB/s 0ns\n"
                               "cable sa sb net 10GB/s 0ns\n";
    struct tutti_topo *topo = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_topo_parse("dumbbell", text, sizeof(text) - 1, &topo, &err), err);
    return topo;
}

/* A step that works, then reduces; if `hides`, works once more beside that. */
static int make(uint32_t rank_count, tutti_ps work_ps, uint64_t bytes, bool hides,
                struct tutti_schedule **ret, struct tutti_err *err)
{
    const struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = bytes / 4};
    const struct tutti_shape shape = {.rank_count = rank_count};
    const struct tutti_schedule_desc desc = {.name = "step",
                                             .contract = {.collective = TUTTI_CUSTOM},
                                             .rank_count = rank_count,
                                             .lane_count = 2,
                                             .in_bytes = bytes,
                                             .out_bytes = bytes,
                                             .scratch_bytes = bytes,
                                             .program_count = 1};
    const struct tutti_step work = {.kind = TUTTI_COMPUTE, .duration_ps = work_ps};
    struct tutti_step call = tutti_step_call(0, 0, (struct tutti_buf_at){TUTTI_BUF_IN, 0},
                                             (struct tutti_buf_at){TUTTI_BUF_OUT, 0}, 0);
    struct tutti_schedule *callee = NULL;
    struct tutti_builder *b = NULL;
    uint32_t index;
    int status = tutti_coll_generate("ring", &params, &shape, &callee, err);

    if (status < 0)
        return status;
    status = tutti_builder_new(&desc, &b, err);
    if (status == 0)
        status = tutti_builder_add_callee(b, callee, &index, err);
    if (status < 0) {
        tutti_schedule_free(callee);
        tutti_builder_free(b);
        return status;
    }
    (void)tutti_builder_add(b, 0, 0, &work, NULL);
    if (hides)
        (void)tutti_builder_add(b, 0, 0, &work, NULL);
    call.flags = TUTTI_STEP_DEP;
    (void)tutti_builder_add(b, 0, 1, &call, NULL);
    return tutti_builder_finish(b, ret, err);
}

static struct tutti_schedule *step(uint32_t rank_count, tutti_ps work_ps, uint64_t bytes,
                                   bool hides)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err;

    CHECK_OK(make(rank_count, work_ps, bytes, hides, &schedule, &err), err);
    return schedule;
}

static void share(const struct tutti_topo *topo, const struct tutti_job_on_ranks *jobs,
                  uint32_t count, struct tutti_job_shared *ret)
{
    const struct tutti_jobs_opts opts = {
        .size = sizeof(opts), .topo = topo, .jobs = jobs, .job_count = count};
    struct tutti_err err = {""};

    CHECK_OK(tutti_jobs_play(&opts, ret, &err), err);
}

static tutti_ps all_messages(const struct tutti_topo *topo, const struct tutti_job_on_ranks *jobs,
                             uint32_t count, uint32_t steps)
{
    const struct tutti_sim_opts opts = {.size = sizeof(opts), .topo = topo};
    struct tutti_play wish = {.size = sizeof(wish), .iteration_count = 1};
    struct tutti_schedule *merged = NULL;
    struct tutti_backend *sim = NULL;
    struct tutti_played played = {.total_ps = 0};
    struct tutti_err err;

    CHECK_OK(tutti_jobs_merge(topo->rank_count, jobs, count, steps, &merged, &err), err);
    CHECK_OK(tutti_schedule_check(merged, &err), err);
    wish.schedule = merged;
    CHECK_OK(tutti_sim_open(&opts, &sim, &err), err);
    CHECK_OK(tutti_backend_play(sim, &wish, &played, &err), err);
    tutti_backend_close(sim);
    tutti_schedule_free(merged);
    return played.total_ps;
}

/* 8 MB each way over 10 GB/s: 800 us alone, 1600 us with the other; the work of 200 us stays. */
TEST(two_equal_jobs_have_half_a_link_each)
{
    static const uint32_t ranks[2][2] = {{0, 2}, {1, 3}};
    struct tutti_topo *topo = dumbbell();
    struct tutti_schedule *s = step(2, 200 * US, 8000000, false);
    const struct tutti_job_on_ranks jobs[2] = {{.name = "a", .step = s, .ranks = ranks[0]},
                                               {.name = "b", .step = s, .ranks = ranks[1]}};
    struct tutti_job_shared shared[2];

    share(topo, jobs, 2, shared);
    for (int j = 0; j < 2; j++) {
        CHECK_INT(shared[j].alone_ps, 1000 * US);
        CHECK_INT(shared[j].calls_ps, 800 * US);
        CHECK_INT(shared[j].step_ps, 1800 * US);
        CHECK(fabs(shared[j].asked - 0.8) < 1e-9);
        CHECK(fabs(shared[j].asked_by_all - 1.6) < 1e-9);
    }
    CHECK_INT(all_messages(topo, jobs, 1, 3), 3000 * US);
    CHECK_INT(all_messages(topo, jobs, 2, 3), 5400 * US);
    tutti_schedule_free(s);
    tutti_topo_free(topo);
}

/* Each sends while the other computes, if the second begins when it should. */
TEST(jobs_that_take_turns_lose_nothing)
{
    static const uint32_t ranks[2][2] = {{0, 2}, {1, 3}};
    struct tutti_topo *topo = dumbbell();
    struct tutti_schedule *s = step(2, 800 * US, 8000000, false);
    struct tutti_job_on_ranks jobs[2] = {
        {.name = "a", .step = s, .ranks = ranks[0]},
        {.name = "b", .step = s, .ranks = ranks[1], .start_ps = 800 * US}};
    struct tutti_job_shared shared[2];

    share(topo, jobs, 2, shared);
    CHECK_INT(shared[0].step_ps, 1600 * US);
    CHECK_INT(shared[1].step_ps, 1600 * US);
    CHECK_INT(all_messages(topo, jobs, 2, 4), 7200 * US);
    jobs[1].start_ps = 0;
    {
        const struct tutti_jobs_opts opts = {
            .size = sizeof(opts), .topo = topo, .jobs = jobs, .job_count = 2, .shifts = 8};
        struct tutti_err err = {""};

        CHECK_OK(tutti_jobs_play(&opts, shared, &err), err);
    }
    CHECK_INT(shared[0].step_ps, 2400 * US);
    CHECK_INT(shared[1].shift_ps, 800 * US);
    CHECK_INT(shared[0].shifted_ps, 1600 * US);
    CHECK_INT(shared[1].shifted_ps, 1600 * US);
    tutti_schedule_free(s);
    tutti_topo_free(topo);
}

/* Packed on hosts of their own, jobs of one host share nothing; spread over two, one cable. */
TEST(placement_decides_what_is_shared)
{
    struct tutti_topo *topo = machine("rail:nodes=2,gpus=4,nics=1");
    struct tutti_schedule *s = step(4, 100 * US, 4 << 20, false);
    struct tutti_job_shared shared[2], packed;
    struct tutti_err err = {""};

    for (int p = 0; p < 2; p++) {
        bool taken[8] = {false};
        uint32_t ranks[2][4];
        struct tutti_job_on_ranks jobs[2] = {{.name = "a", .step = s, .ranks = ranks[0]},
                                             {.name = "b", .step = s, .ranks = ranks[1]}};

        for (int j = 0; j < 2; j++)
            CHECK_OK(tutti_jobs_place(topo, p == 0 ? TUTTI_JOBS_PACKED : TUTTI_JOBS_SPREAD, 4,
                                      taken, ranks[j], &err),
                     err);
        CHECK_INT(ranks[0][1], p == 0 ? 1 : 1);
        CHECK_INT(ranks[0][3], p == 0 ? 3 : 5);
        share(topo, jobs, 2, shared);
        if (p == 0) {
            packed = shared[0];
            CHECK_INT(shared[0].step_ps, shared[0].alone_ps);
            CHECK_INT(shared[0].link, UINT32_MAX);
        }
    }
    CHECK(shared[0].alone_ps > packed.alone_ps);
    CHECK(shared[0].step_ps > shared[0].alone_ps * 5 / 4);
    tutti_schedule_free(s);
    tutti_topo_free(topo);
}

/* A ring through two hosts with four cards each, or four that stay on their rails. */
TEST(copies_of_a_ring_use_all_network_cards)
{
    static const uint32_t ranks[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct tutti_topo *topo = machine("rail:nodes=2,gpus=4");
    struct tutti_schedule *s = step(8, US, 256 << 20, false);
    const struct tutti_job_on_ranks job = {.name = "a", .step = s, .ranks = ranks};
    struct tutti_jobs_opts opts = {
        .size = sizeof(opts), .topo = topo, .jobs = &job, .job_count = 1};
    struct tutti_job_shared one, four;
    struct tutti_err err = {""};

    CHECK_OK(tutti_jobs_play(&opts, &one, &err), err);
    opts.rails = true;
    CHECK_OK(tutti_jobs_play(&opts, &four, &err), err);
    CHECK(four.calls_ps < one.calls_ps * 26 / 100);
    CHECK(four.calls_ps > one.calls_ps * 24 / 100);
    tutti_schedule_free(s);
    tutti_topo_free(topo);
}

/* ---- against all messages -------------------------------------------------------------------- */

static struct tutti_random source;

static uint64_t below(uint64_t limit)
{
    return tutti_random_below(&source, limit);
}

struct off {
    double alone; /* of a job by itself, */
    double null;  /* of both, taken to lose nothing, */
    double both;  /* and of both until each has made its steps */
};

/* Two jobs on random ranks, so many steps of each. */
static struct off compare(const char *spec)
{
    enum { STEPS = 8 };
    struct tutti_topo *topo = machine(spec);
    uint32_t order[RANKS_MAX];
    const uint32_t each = 2 + (uint32_t)below(topo->rank_count / 2 - 1);
    struct tutti_job_shared shared[2];
    struct tutti_job_on_ranks jobs[2];
    struct tutti_schedule *steps[2];
    struct tutti_err err = {""};
    tutti_ps fluid = 0, alone = 0, message;
    struct off off = {0, 0, 0};

    for (uint32_t i = 0; i < topo->rank_count; i++)
        order[i] = i;
    for (uint32_t i = topo->rank_count; i > 1; i--) {
        uint32_t k = (uint32_t)below(i), t = order[k];

        order[k] = order[i - 1];
        order[i - 1] = t;
    }
    for (int j = 0; j < 2; j++) {
        steps[j] = step(each, (tutti_ps)(20 + below(500)) * US, (uint64_t)(1 + below(16)) << 20,
                        below(2) == 0);
        jobs[j] = (struct tutti_job_on_ranks){
            .name = j == 0 ? "a" : "b", .step = steps[j], .ranks = &order[(uint32_t)j * each]};
    }
    const struct tutti_jobs_opts opts = {.size = sizeof(opts),
                                         .topo = topo,
                                         .jobs = jobs,
                                         .job_count = 2,
                                         .steps = STEPS,
                                         .ends = true};

    CHECK_OK(tutti_jobs_play(&opts, shared, &err), err);
    for (int j = 0; j < 2; j++) {
        message = all_messages(topo, &jobs[j], 1, STEPS) / STEPS;
        off.alone = fmax(off.alone, fabs((double)shared[j].alone_ps / (double)message - 1));
        fluid = shared[j].step_ps > fluid ? shared[j].step_ps : fluid;
        alone = shared[j].alone_ps > alone ? shared[j].alone_ps : alone;
    }
    message = all_messages(topo, jobs, 2, STEPS) / STEPS;
    off.both = (double)fluid / (double)message - 1;
    off.null = fabs((double)alone / (double)message - 1);
    for (int j = 0; j < 2; j++)
        tutti_schedule_free(steps[j]);
    tutti_topo_free(topo);
    return off;
}

static int by_size(const void *a, const void *b)
{
    const double x = fabs(*(const double *)a), y = fabs(*(const double *)b);

    return (x > y) - (x < y);
}

TEST(random_jobs_against_all_their_messages)
{
    static const char *const specs[] = {
        "rail:nodes=2,gpus=4,nics=1", "ring:n=8,bw=10GB/s,lat=1us", "switch:n=8,bw=50GB/s,lat=1us",
        "pcie:nodes=2,gpus=4,nics=1", "torus:4x2,bw=20GB/s,lat=1us"};
    enum { FEW = 40, MANY = 400 };
    double off[MANY], alone = 0, null = 0;
    const uint32_t count = test_full ? MANY : FEW;

    tutti_random_seed(&source, test_seed);
    for (uint32_t i = 0; i < count; i++) {
        const struct off one = compare(specs[i % 5]);

        off[i] = one.both;
        alone = fmax(alone, one.alone);
        null = fmax(null, one.null);
    }
    qsort(off, count, sizeof(off[0]), by_size);
    printf("  %u pairs of jobs: off by %.2f %% in the median, %.2f %% p90, %.2f %% at worst (%.1f "
           "%% if "
           "nothing were shared); "
           "alone %.2f %% at worst (seed %" PRIu64 ")\n",
           count, 100 * fabs(off[count / 2]), 100 * fabs(off[count * 9 / 10]),
           100 * fabs(off[count - 1]), 100 * null, 100 * alone, test_seed);
    CHECK(fabs(off[count / 2]) < 0.005);
    CHECK(fabs(off[count * 9 / 10]) < 0.02);
    CHECK(fabs(off[count - 1]) < 0.15);
    CHECK(alone < 0.05);
}

static struct tutti_topo *world;

static int story(struct tutti_err *err)
{
    static const uint32_t ranks[2][2] = {{0, 2}, {1, 3}};
    struct tutti_schedule *s = NULL;
    struct tutti_job_shared shared[2];
    int status;

    status = make(2, US, 4096, true, &s, err);
    if (status == 0) {
        const struct tutti_job_on_ranks jobs[2] = {{.name = "a", .step = s, .ranks = ranks[0]},
                                                   {.name = "b", .step = s, .ranks = ranks[1]}};
        const struct tutti_jobs_opts opts = {
            .size = sizeof(opts), .topo = world, .jobs = jobs, .job_count = 2, .steps = 2};

        status = tutti_jobs_play(&opts, shared, err);
    }
    tutti_schedule_free(s);
    return status;
}

TEST(memory_may_run_out)
{
    struct tutti_err err = {""};

    world = dumbbell();
    ALLOC_FAIL_EACH(story(&err), err);
    tutti_topo_free(world);
}

TEST(what_does_not_go_together_is_refused)
{
    static const uint32_t twice[2] = {0, 0}, beyond[2] = {0, 9}, good[2] = {0, 2};
    struct tutti_topo *topo = dumbbell();
    struct tutti_schedule *s = step(2, US, 4096, false), *merged = NULL;
    struct tutti_job_on_ranks job = {.name = "a", .step = s, .ranks = twice};
    struct tutti_jobs_opts opts = {
        .size = sizeof(opts), .topo = topo, .jobs = &job, .job_count = 1};
    struct tutti_job_shared shared;
    bool taken[4] = {false, true, true, true};
    uint32_t ranks[4];
    struct tutti_err err = {""};

    CHECK_INT(tutti_jobs_play(&opts, &shared, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "is taken") != NULL);
    job.ranks = beyond;
    CHECK_INT(tutti_jobs_merge(4, &job, 1, 1, &merged, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "there is not") != NULL);
    job.ranks = good;
    opts.job_count = 0;
    CHECK_INT(tutti_jobs_play(&opts, &shared, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_jobs_place(topo, TUTTI_JOBS_PACKED, 2, taken, ranks, &err), -TUTTI_EINVAL);
    tutti_schedule_free(s);
    tutti_topo_free(topo);
}
