/* A run that goes on: four processes all-reduce over tcp step by step, one is killed in step 5,000,
 * the others are told who, shrink within their deadline and step on with right sums; then a new
 * process joins, and four go on. The seed picks who is killed, at which moment of the step, and who
 * hesitates; --full tells 20 such stories. */
#include <pthread.h>

#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/schedule.h"
#include "runtime/tcp.h"
#include "tests/runtime/kids.h"

enum {
    COUNT = 4,
    NEWCOMER = 4,
    ELEMENTS = 256,    /* 1 KiB */
    FATAL_STEP = 5000, /* in which one is killed */
    MORE_STEPS = 500,  /* after the loss, and after a newcomer; fewer where all is slow */
    ADMIT_STEPS = 50,  /* between two looks for newcomers */
    SHRINK_MS = 5000,  /* the deadline */
    STORY_MS = 120000, /* on a machine that has other work, under sanitizers */
};

struct story {
    uint64_t seed;
    uint32_t victim;
    uint32_t steps;         /* before the fatal one */
    uint32_t more_steps;    /* after it, and after the newcomer */
    uint64_t moment_ppm;    /* of the length of a step, after its beginning */
    uint32_t hesitation_us; /* at most, before each is at its shrink */
    uint32_t newcomer_us;   /* after the others are back */
};

static struct story story;

static struct story story_of(uint64_t seed)
{
    struct tutti_random dice;
    struct story ret = {.seed = seed};

    tutti_random_seed(&dice, seed);
    ret.victim = (uint32_t)tutti_random_below(&dice, COUNT);
    ret.steps = (FATAL_STEP - 1) / (uint32_t)(test_fewer() > 4 ? 10 : 1);
    ret.more_steps = MORE_STEPS / (test_is_slow() ? 5u : 1u);
    ret.moment_ppm = tutti_random_below(&dice, 1000000);
    ret.hesitation_us = (uint32_t)tutti_random_below(&dice, 50000);
    ret.newcomer_us = (uint32_t)tutti_random_below(&dice, 50000);
    return ret;
}

/* ---- one process ---- */

struct work {
    struct tutti_group *group;
    struct tutti_backend *backend;
    struct tutti_schedule *schedule;
    struct tutti_run *run;
    const void *ins[COUNT + 1];
    void *outs[COUNT + 1];
    int32_t in[ELEMENTS];
    int32_t out[ELEMENTS];
};

static int work_open(struct work *work, struct tutti_err *err)
{
    struct tutti_tcp_opts opts = {.size = sizeof(opts), .group = work->group};
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_INT32, .op = TUTTI_SUM, .count = ELEMENTS};
    struct tutti_shape shape = tutti_shape_flat(work->group->count);
    struct tutti_play play = {.size = sizeof(play), .iteration_count = 1};
    int status = tutti_coll_generate("ring", &params, &shape, &work->schedule, err);

    work->ins[work->group->index] = work->in;
    work->outs[work->group->index] = work->out;
    play.schedule = work->schedule;
    play.in = work->ins;
    play.out = work->outs;
    play.deadline_ps = 20 * TUTTI_PS_PER_S;
    if (status == 0)
        status = tutti_tcp_open(&opts, &work->backend, err);
    if (status == 0)
        status = tutti_run_open(work->backend, &play, &work->run, err);
    return status;
}

static void work_close(struct work *work)
{
    tutti_run_close(work->run);
    tutti_backend_close(work->backend);
    tutti_schedule_free(work->schedule);
    work->run = NULL;
    work->backend = NULL;
    work->schedule = NULL;
}

/* What a process gives in a step: of no other process, of no other step. */
static int32_t element(uint32_t step, uint32_t id, uint32_t i)
{
    return (int32_t)(step % 10007 * 101 + id * 7919 + i * 13);
}

static int work_step(struct work *work, uint32_t step, struct tutti_err *err)
{
    struct tutti_group *group = work->group;
    struct tutti_played played;
    int status;

    for (uint32_t i = 0; i < ELEMENTS; i++)
        work->in[i] = element(step, tutti_group_id(group, group->index), i);
    status = tutti_run_step(work->run, 1, &played, err);
    for (uint32_t i = 0; i < ELEMENTS && status == 0; i++) {
        int32_t sum = 0;

        for (uint32_t p = 0; p < group->count; p++)
            sum += element(step, tutti_group_id(group, p), i);
        if (work->out[i] != sum)
            status =
                tutti_fail(err, TUTTI_ECHECK, "step %u of incarnation %u: element %u is %d, not %d",
                           step, group->incarnation, i, work->out[i], sum);
    }
    return status;
}

struct fate {
    uint64_t after_us;
    struct kid *kid;
};

static void *kill_self(void *data)
{
    const struct fate *fate = data;

    pause_us(fate->after_us);
    fate->kid->lost_ms = now_ms();
    (void)kill(getpid(), SIGKILL);
    return NULL;
}

/* All that are left go on with the step that any of them has not done. */
static int agree_on_step(struct tutti_group *group, uint32_t *step, bool newest,
                         struct tutti_err *err)
{
    uint32_t all[COUNT + 1];
    uint32_t mine = *step;
    int status = tutti_group_exchange(group, &mine, sizeof(mine), all, 0, err);

    for (uint32_t i = 0; i < group->count && status == 0; i++)
        if (newest ? all[i] > *step : all[i] < *step)
            *step = all[i];
    return status;
}

static int shrink(struct work *work, struct kid *kid, const struct tutti_err *lost,
                  struct tutti_err *err)
{
    struct tutti_group *next = NULL;
    struct tutti_random dice;
    int status;

    (void)snprintf(kid->lost_text, sizeof(kid->lost_text), "%s", lost->text);
    work_close(work);
    tutti_random_seed(&dice, story.seed * 8 + work->group->index);
    pause_us(tutti_random_below(&dice, story.hesitation_us + 1));
    status = tutti_group_shrink(work->group, COUNT - 1, SHRINK_MS * TUTTI_PS_PER_MS, &next, err);
    if (status < 0)
        return status;
    tutti_group_close(work->group);
    work->group = next;
    status = work_open(work, err);
    kid->back_ms = now_ms();
    (void)snprintf(kid->why, sizeof(kid->why), "%s", tutti_group_why(next));
    return status;
}

static int admit(struct work *work, bool *ret_came, struct tutti_err *err)
{
    struct tutti_group *next = NULL;
    int status = tutti_group_admit(work->group, 0, SHRINK_MS * TUTTI_PS_PER_MS, &next, err);

    *ret_came = false;
    if (status < 0 || next == NULL)
        return status;
    work_close(work);
    tutti_group_close(work->group);
    work->group = next;
    *ret_came = true;
    return work_open(work, err);
}

/* Steps until four have done `more_steps` after one of them has joined. */
static int go_on(struct tutti_group *group, struct kid *kid, struct tutti_err *err)
{
    struct work *work = calloc(1, sizeof(*work));
    struct fate fate = {.kid = kid};
    bool is_newcomer = kid == &kids[NEWCOMER];
    uint32_t step = 0;
    uint32_t changed = 0; /* the step at which the group became what it is */
    int64_t begin_us = 0;
    int status;

    if (work == NULL)
        return tutti_nomem(err);
    work->group = group;
    status = work_open(work, err);
    if (status == 0 && is_newcomer) {
        status = agree_on_step(group, &step, true, err);
        changed = step;
    }
    atomic_store(&kid->stage, 1);
    while (status == 0 && (work->group->count < COUNT || work->group->incarnation == 1 ||
                           step < changed + story.more_steps)) {
        struct tutti_err lost = {""};
        struct timespec now;
        bool came = false;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        if (step == story.steps && kid == &kids[story.victim] && work->group->incarnation == 1) {
            pthread_t thread;

            fate.after_us = (uint64_t)(now.tv_sec * 1000000 + now.tv_nsec / 1000 - begin_us) *
                            story.moment_ppm / 1000000;
            (void)pthread_create(&thread, NULL, kill_self, &fate);
        }
        begin_us = now.tv_sec * 1000000 + now.tv_nsec / 1000;
        status = work_step(work, step, &lost);
        if (status == 0) {
            step++;
            atomic_store(&kid->at_step, step);
        } else if (status == -TUTTI_ECHECK) {
            *err = lost;
        } else {
            status = shrink(work, kid, &lost, err);
            if (status == 0)
                status = agree_on_step(work->group, &step, false, err);
            changed = step;
            atomic_store(&kid->stage, 2);
            continue;
        }
        if (status == 0 && work->group->count < COUNT && step >= changed + story.more_steps &&
            step % ADMIT_STEPS == 0)
            status = admit(work, &came, err);
        if (status == 0 && came) {
            status = agree_on_step(work->group, &step, true, err);
            changed = step;
        }
    }
    kid_end(kid, status == 0 ? work->group : NULL, status, err);
    kid->at_step = step;
    work_close(work);
    tutti_group_close(work->group);
    free(work);
    return status;
}

static void join(void)
{
    struct tutti_group_tcp_opts opts = kids_opts;
    struct tutti_group *group = NULL;
    struct tutti_err err = {""};
    int status;

    if (!kid_fork(NEWCOMER))
        return;
    opts.root = kids_root;
    opts.deadline_ps = 60 * TUTTI_PS_PER_S;
    status = tutti_group_tcp_join(&opts, &group, &err);
    if (status == 0)
        status = go_on(group, &kids[NEWCOMER], &err);
    else
        kid_end(&kids[NEWCOMER], NULL, status, &err);
    _exit(status == 0 ? 0 : 1);
}

/* ---- the story ---- */

static void expect_end(void)
{
    char who[64];
    uint32_t place = 0;

    (void)snprintf(who, sizeof(who), "process %u of 4", story.victim);
    for (uint32_t i = 0; i <= NEWCOMER; i++) {
        const struct kid *kid = &kids[i];

        if (i == story.victim)
            continue;
        (void)kid_reap(i, STORY_MS);
        if (kid->status != 0 || kid->count != COUNT || kid->index != place || kid->incarnation != 3)
            TEST_FAIL(
                "process %u ends as %u of %u in incarnation %u: status %d: %s (it had lost: %s)", i,
                kid->index, kid->count, kid->incarnation, kid->status, kid->text, kid->lost_text);
        place++;
        if (i == NEWCOMER)
            continue;
        if (strstr(kid->lost_text, who) == NULL)
            TEST_FAIL("process %u: '%s' does not name process %u", i, kid->lost_text, story.victim);
        if (kid->back_ms - kids[story.victim].lost_ms > SHRINK_MS)
            TEST_FAIL("process %u is back after %lld ms", i,
                      (long long)(kid->back_ms - kids[story.victim].lost_ms));
    }
}

static void tell(uint64_t seed)
{
    int64_t begin_ms = now_ms();
    int64_t back_ms = 0;

    story = story_of(seed);
    REQUIRE(kids_start(COUNT, go_on));
    (void)kid_reap(story.victim, STORY_MS);
    for (uint32_t i = 0; i < COUNT; i++)
        if (i != story.victim)
            (void)kid_reach(i, 2, STORY_MS);
    pause_us(story.newcomer_us);
    join();
    expect_end();
    for (uint32_t i = 0; i < COUNT; i++)
        if (i != story.victim && kids[i].back_ms - kids[story.victim].lost_ms > back_ms)
            back_ms = kids[i].back_ms - kids[story.victim].lost_ms;
    fprintf(stderr,
            "seed %" PRIu64 ": process %u killed in step %u, three back after %lld ms, four end at "
            "step %u, %.1f s in all\n",
            seed, story.victim, story.steps + 1, (long long)back_ms,
            atomic_load(&kids[NEWCOMER].at_step), (double)(now_ms() - begin_ms) * 1e-3);
    kids_kill();
}

TEST(one_is_killed_three_go_on_and_one_joins)
{
    uint64_t count = test_count(20, 2);

    for (uint64_t i = 0; i < count && test_failures == 0; i++)
        tell(test_seed + i);
}
