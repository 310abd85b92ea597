/* Pipelines: each order is whole and waits for nothing that comes later; what a step takes and
 * holds is what the papers say. */
#include "runtime/pipeline.h"

#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { DEVICES = 9, MICRO_BATCHES = 24 };

static struct tutti_pipeline_params params_of(enum tutti_pipeline pipeline, uint32_t devices,
                                              uint32_t micro_batches, uint32_t chunks)
{
    return (struct tutti_pipeline_params){.size = sizeof(struct tutti_pipeline_params),
                                          .pipeline = pipeline,
                                          .device_count = devices,
                                          .micro_batches = micro_batches,
                                          .chunks = chunks};
}

static const char *words(const struct tutti_pipeline_params *p)
{
    static char text[96];

    snprintf(text, sizeof(text), "%s of %u devices, %u micro-batches, %u chunks",
             tutti_pipeline_name(p->pipeline), p->device_count, p->micro_batches, p->chunks);
    return text;
}

/* A play, with all that it was made of. */
struct played {
    struct tutti_pipeline_params params;
    const struct tutti_stage_times *times;
    uint32_t task_count;
    struct tutti_pipeline_task *tasks; /* [device][task] */
    tutti_ps *starts;
    struct tutti_pipeline_times sum;
};

static struct played play(struct tutti_pipeline_params params,
                          const struct tutti_stage_times *times, tutti_ps hop_ps)
{
    struct played played = {.params = params, .times = times};
    struct tutti_err err;
    size_t count;

    played.task_count = tutti_pipeline_task_count(&params);
    count = (size_t)params.device_count * played.task_count;
    played.tasks = calloc(count, sizeof(*played.tasks));
    played.starts = calloc(count, sizeof(*played.starts));
    if (played.tasks == NULL || played.starts == NULL)
        abort();
    for (uint32_t d = 0; d < params.device_count; d++)
        tutti_pipeline_tasks(&params, d, played.tasks + (size_t)d * played.task_count);
    CHECK_OK(tutti_pipeline_play(&params, times, hop_ps, played.starts, &played.sum, &err), err);
    return played;
}

static void played_done(struct played *played)
{
    free(played->tasks);
    free(played->starts);
}

/* All stages alike: F, B, W are those of a device, which its chunks share. */
static struct tutti_stage_times *equal_times(const struct tutti_pipeline_params *params, tutti_ps f,
                                             tutti_ps b, tutti_ps w)
{
    const tutti_ps v = tutti_pipeline_chunks(params);
    const uint32_t count = tutti_pipeline_stage_count(params);
    struct tutti_stage_times *times = calloc(count, sizeof(*times));

    if (times == NULL)
        abort();
    for (uint32_t i = 0; i < count; i++)
        times[i] = (struct tutti_stage_times){f / v, b / v, w / v};
    return times;
}

/* The most that any device holds, in chunks. */
static uint32_t held(const struct played *played)
{
    uint32_t most = 0;

    for (uint32_t d = 0; d < played->params.device_count; d++) {
        uint32_t here =
            tutti_pipeline_held(&played->params, played->tasks + (size_t)d * played->task_count);

        most = here > most ? here : most;
    }
    return most;
}

/* ---- orders ---------------------------------------------------------------------------------- */

static tutti_ps takes(const struct played *played, const struct tutti_pipeline_task *task,
                      uint32_t stage)
{
    const struct tutti_stage_times *t = &played->times[stage];
    const bool splits = tutti_pipeline_splits(&played->params);

    return task->pass == TUTTI_PASS_FORWARD   ? t->forward_ps
           : task->pass == TUTTI_PASS_WEIGHTS ? t->weights_ps
                                              : t->backward_ps + (splits ? 0 : t->weights_ps);
}

/* The end of a task that another one waits for; it must be there, once. */
static tutti_ps end_of(const struct played *played, enum tutti_pass pass, uint32_t stage,
                       uint32_t micro_batch, uint32_t *ret_device)
{
    tutti_ps end = -1;
    uint32_t device;
    uint32_t chunk;

    tutti_pipeline_place(&played->params, stage, &device, &chunk);
    CHECK(tutti_pipeline_stage(&played->params, device, chunk) == stage);
    for (uint32_t i = 0; i < played->task_count; i++) {
        const size_t at = (size_t)device * played->task_count + i;
        const struct tutti_pipeline_task *t = &played->tasks[at];

        if (t->pass != pass || t->chunk != chunk || t->micro_batch != micro_batch)
            continue;
        CHECK(end < 0);
        end = played->starts[at] + takes(played, t, stage);
    }
    CHECK(end >= 0);
    *ret_device = device;
    return end;
}

static tutti_ps later(tutti_ps a, tutti_ps b)
{
    return a > b ? a : b;
}

/* The earliest that a task may begin, by what it needs; looked up, not remembered. */
static tutti_ps due(const struct played *played, uint32_t device, uint32_t index, tutti_ps hop_ps)
{
    const struct tutti_pipeline_params *p = &played->params;
    const struct tutti_pipeline_task *t =
        &played->tasks[(size_t)device * played->task_count + index];
    const uint32_t stage = tutti_pipeline_stage(p, device, t->chunk);
    const uint32_t last = tutti_pipeline_stage_count(p) - 1;
    uint32_t from = device;
    tutti_ps at = 0;

    if (index > 0) {
        const struct tutti_pipeline_task *before = t - 1;

        at = played->starts[(size_t)device * played->task_count + index - 1] +
             takes(played, before, tutti_pipeline_stage(p, device, before->chunk));
    }
    if (t->pass == TUTTI_PASS_FORWARD && stage > 0) {
        tutti_ps end = end_of(played, TUTTI_PASS_FORWARD, stage - 1, t->micro_batch, &from);
        at = later(at, end + (from != device ? hop_ps : 0));
    }
    if (t->pass == TUTTI_PASS_BACKWARD && stage < last) {
        tutti_ps end = end_of(played, TUTTI_PASS_BACKWARD, stage + 1, t->micro_batch, &from);
        at = later(at, end + (from != device ? hop_ps : 0));
    }
    if (t->pass == TUTTI_PASS_BACKWARD)
        at = later(at, end_of(played, TUTTI_PASS_FORWARD, stage, t->micro_batch, &from));
    if (t->pass == TUTTI_PASS_WEIGHTS)
        at = later(at, end_of(played, TUTTI_PASS_BACKWARD, stage, t->micro_batch, &from));
    return at;
}

static void check_play(const struct played *played, tutti_ps hop_ps)
{
    const struct tutti_pipeline_params *p = &played->params;
    const int before = test_failures;
    tutti_ps step_ps = 0;
    tutti_ps idle_ps = 0;

    for (uint32_t d = 0; d < p->device_count && test_failures == before; d++) {
        const tutti_ps *starts = played->starts + (size_t)d * played->task_count;
        tutti_ps busy_ps = 0;
        tutti_ps end_ps = 0;

        for (uint32_t i = 0; i < played->task_count && test_failures == before; i++) {
            const struct tutti_pipeline_task *t =
                &played->tasks[(size_t)d * played->task_count + i];
            const tutti_ps time_ps = takes(played, t, tutti_pipeline_stage(p, d, t->chunk));

            if (starts[i] != due(played, d, i, hop_ps))
                TEST_FAIL("%s: task %u of device %u begins at %lld, due %lld", words(p), i, d,
                          (long long)starts[i], (long long)due(played, d, i, hop_ps));
            busy_ps += time_ps;
            end_ps = starts[i] + time_ps;
        }
        step_ps = later(step_ps, end_ps);
        idle_ps = later(idle_ps, end_ps - starts[0] - busy_ps);
    }
    CHECK_INT(played->sum.step_ps, step_ps);
    CHECK_INT(played->sum.idle_ps, idle_ps);
}

/* Stages that all differ, and a hop between devices: each task begins when it is due, not later. */
TEST(each_task_begins_when_what_it_needs_is_there)
{
    const uint64_t count = test_count(600, 60);

    for (uint64_t k = 0; k < count; k++) {
        const uint64_t seed = test_seed + k;
        const enum tutti_pipeline kind =
            (enum tutti_pipeline)(tutti_random_hash(seed, 1, 0, 0) % TUTTI_PIPELINE_COUNT);
        const uint32_t devices = 1 + (uint32_t)(tutti_random_hash(seed, 2, 0, 0) % 6);
        const uint32_t more = (uint32_t)(tutti_random_hash(seed, 3, 0, 0) % 6);
        const uint32_t chunks = 2 + (uint32_t)(tutti_random_hash(seed, 4, 0, 0) % 2);
        const bool interleaved = kind == TUTTI_PIPELINE_INTERLEAVED;
        struct tutti_pipeline_params p =
            params_of(kind, devices, interleaved ? devices * (1 + more / 2) : 2 * devices + more,
                      interleaved ? chunks : 0);
        const tutti_ps hop_ps = (tutti_ps)(tutti_random_hash(seed, 5, 0, 0) % 50);
        struct tutti_stage_times *times = equal_times(&p, 0, 0, 0);
        struct played played;

        for (uint32_t i = 0; i < tutti_pipeline_stage_count(&p); i++)
            times[i] =
                (struct tutti_stage_times){(tutti_ps)(tutti_random_hash(seed, 6, i, 0) % 100),
                                           (tutti_ps)(tutti_random_hash(seed, 7, i, 0) % 200),
                                           (tutti_ps)(tutti_random_hash(seed, 8, i, 0) % 100)};
        played = play(p, times, hop_ps);
        check_play(&played, hop_ps);
        played_done(&played);
        free(times);
        if (test_failures > 0) {
            TEST_FAIL("seed %" PRIu64, seed);
            return;
        }
    }
}

/* ---- what papers say ------------------------------------------------------------------------- */

static void check_step(struct tutti_pipeline_params p, tutti_ps f, tutti_ps b, tutti_ps w,
                       tutti_ps step_ps, uint32_t held_max)
{
    struct tutti_stage_times *times = equal_times(&p, f, b, w);
    struct played played = play(p, times, 0);

    if (played.sum.step_ps != step_ps)
        TEST_FAIL("%s, F %lld B %lld W %lld: a step of %lld, expected %lld", words(&p),
                  (long long)f, (long long)b, (long long)w, (long long)played.sum.step_ps,
                  (long long)step_ps);
    if (held(&played) != held_max)
        TEST_FAIL("%s: holds %u, expected %u", words(&p), held(&played), held_max);
    played_done(&played);
    free(times);
}

static uint32_t less(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* F, B and W in twelfths, so that chunks divide them. */
static const tutti_ps times_of[][3] = {{12, 12, 12}, {36, 60, 48}, {12, 24, 6}, {24, 48, 24}};

/* Huang 2019; Narayanan 2019, 2021: (p - 1)/m, (p - 1)/(v m) of the work. */
TEST(bubbles_of_whole_backward_passes)
{
    for (uint32_t p = 1; p <= DEVICES; p++) {
        for (uint32_t m = 1; m <= MICRO_BATCHES; m++) {
            for (int t = 0; t < 4; t++) {
                const tutti_ps f = times_of[t][0];
                const tutti_ps b = times_of[t][1];
                const tutti_ps w = times_of[t][2];
                const tutti_ps all = f + b + w;

                check_step(params_of(TUTTI_PIPELINE_GPIPE, p, m, 0), f, b, w, (m + p - 1) * all, m);
                check_step(params_of(TUTTI_PIPELINE_1F1B, p, m, 1), f, b, w, (m + p - 1) * all,
                           less(m, p));
                for (uint32_t v = 2; v <= 3 && m % p == 0; v++)
                    check_step(params_of(TUTTI_PIPELINE_INTERLEAVED, p, m, v), f, b, w,
                               m * all + (p - 1) * all / v, less(m * v, p * v + p - 1));
            }
        }
    }
}

/* Qi et al. 2023, table of bubbles and memory. The input's gradient cannot come earlier than B
 * after B, whatever fills the gaps, which decides where W is more than F. */
TEST(bubbles_of_zero_bubble_pipelines)
{
    for (uint32_t p = 1; p <= DEVICES; p++) {
        for (uint32_t m = p; m <= MICRO_BATCHES; m++) {
            for (int t = 0; t < 4; t++) {
                const tutti_ps f = times_of[t][0];
                const tutti_ps b = times_of[t][1];
                const tutti_ps w = times_of[t][2];
                const tutti_ps all = f + b + w;

                check_step(params_of(TUTTI_PIPELINE_ZB_H1, p, m, 0), f, b, w,
                           m * all + (p - 1) * later(b, f + b - w), less(m, p));
                if (m >= 2 * p - 1 && w < f)
                    check_step(params_of(TUTTI_PIPELINE_ZB_H2, p, m, 0), f, b, w,
                               m * all + (p - 1) * (f + b - 2 * w), less(m, 2 * p - 1));
            }
        }
    }
}

/* At F = B = W no device waits once it has begun. */
TEST(pipelines_without_a_bubble)
{
    for (uint32_t p = 1; p <= DEVICES; p++) {
        for (uint32_t m = 2 * p - 1; m <= MICRO_BATCHES; m++) {
            struct tutti_pipeline_params kinds[] = {params_of(TUTTI_PIPELINE_ZB_H2, p, m, 0),
                                                    params_of(TUTTI_PIPELINE_ZBV, p, m, 2)};

            for (int k = 0; k < 2; k++) {
                struct tutti_stage_times *times = equal_times(&kinds[k], 12, 12, 12);
                struct played played = play(kinds[k], times, 0);

                if (played.sum.idle_ps != 0 ||
                    played.sum.step_ps != (tutti_ps)m * 36 + (tutti_ps)(p - 1) * (k == 0 ? 12 : 6))
                    TEST_FAIL("%s: idle for %lld of a step of %lld", words(&kinds[k]),
                              (long long)played.sum.idle_ps, (long long)played.sum.step_ps);
                CHECK(held(&played) <= (k == 0 ? 2 * p - 1 : 2 * p));
                played_done(&played);
                free(times);
            }
        }
    }
}

/* Of 1F1B the later a device the less, of ZB-H1 and ZB-H2 all as much as the first. */
TEST(what_each_device_holds)
{
    for (uint32_t p = 1; p <= DEVICES; p++) {
        for (uint32_t m = 2 * p; m <= MICRO_BATCHES; m += p) {
            struct tutti_pipeline_task tasks[3 * 3 * MICRO_BATCHES];

            for (uint32_t d = 0; d < p; d++) {
                const uint32_t behind = p - 1 - d;
                struct tutti_pipeline_params params = params_of(TUTTI_PIPELINE_1F1B, p, m, 0);

                tutti_pipeline_tasks(&params, d, tasks);
                CHECK_INT(tutti_pipeline_held(&params, tasks), behind + 1);
                params = params_of(TUTTI_PIPELINE_INTERLEAVED, p, m, 3);
                tutti_pipeline_tasks(&params, d, tasks);
                CHECK_INT(tutti_pipeline_held(&params, tasks), 2 * behind + 2 * p + 1);
                params = params_of(TUTTI_PIPELINE_ZB_H1, p, m, 0);
                tutti_pipeline_tasks(&params, d, tasks);
                CHECK_INT(tutti_pipeline_held(&params, tasks), p);
                params = params_of(TUTTI_PIPELINE_ZB_H2, p, m, 0);
                tutti_pipeline_tasks(&params, d, tasks);
                CHECK_INT(tutti_pipeline_held(&params, tasks), 2 * p - 1);
            }
        }
    }
}

/* Fractions of a step that are bubble: facts of Megatron's papers. */
TEST(known_fractions)
{
    static const struct {
        enum tutti_pipeline pipeline;
        uint32_t devices;
        uint32_t micro_batches;
        uint32_t chunks;
        double fraction;
    } rows[] = {{TUTTI_PIPELINE_1F1B, 4, 8, 0, 0.2727},
                {TUTTI_PIPELINE_1F1B, 8, 32, 0, 0.1795},
                {TUTTI_PIPELINE_INTERLEAVED, 8, 32, 4, 0.05185}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tutti_pipeline_params p =
            params_of(rows[i].pipeline, rows[i].devices, rows[i].micro_batches, rows[i].chunks);
        struct tutti_stage_times *times = equal_times(&p, 4000, 4000, 4000);
        struct played played = play(p, times, 0);
        double work = 12000.0 * rows[i].micro_batches;
        double seen = 1 - work / (double)played.sum.step_ps;

        if (seen < rows[i].fraction - 0.00006 || seen > rows[i].fraction + 0.00006)
            TEST_FAIL("%s: %.5f is bubble, expected %.5f", words(&p), seen, rows[i].fraction);
        played_done(&played);
        free(times);
    }
}

/* nanotron's stages of the two models of the Ultra-Scale Playbook, a vocabulary of 131,072: 16
 * layers of 2048 on 4, and 32 of 4096 on 16, whose last stage has the head alone. */
TEST(stages_as_nanotron_cuts_them)
{
    static const uint32_t large[16] = {3, 2, 2, 2, 2, 2, 2, 3, 2, 2, 2, 2, 2, 2, 2, 0};
    uint32_t stages[16];
    struct tutti_err err;

    CHECK_OK(tutti_pipeline_cut(16, 4 * 2048 * 2048 + UINT64_C(3) * 2048 * 8192, 131072 * 2048, 4,
                                stages, &err),
             err);
    CHECK(stages[0] == 5 && stages[1] == 5 && stages[2] == 5 && stages[3] == 1);
    CHECK_OK(tutti_pipeline_cut(32, 4 * 4096 * 4096 + UINT64_C(3) * 4096 * 14336, 131072 * 4096, 16,
                                stages, &err),
             err);
    for (int i = 0; i < 16; i++)
        CHECK_INT(stages[i], large[i]);
    CHECK_OK(tutti_pipeline_cut(7, 1, 0, 1, stages, &err), err);
    CHECK_INT(stages[0], 7);
    CHECK_INT(tutti_pipeline_cut(7, 1, 0, 0, stages, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_pipeline_cut(7, UINT64_MAX / 14, 0, 2, stages, &err), 0);
    CHECK_INT(tutti_pipeline_cut(7, UINT64_MAX / 13, 0, 2, stages, &err), -TUTTI_EINVAL);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void check_refused(struct tutti_pipeline_params p, const char *expected)
{
    struct tutti_err err = {""};

    CHECK_INT(tutti_pipeline_check(&p, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, expected);
}

TEST(what_cannot_be_is_refused)
{
    struct tutti_pipeline_params p = params_of(TUTTI_PIPELINE_1F1B, 2, 2, 0);
    struct tutti_stage_times times[2] = {{1, 1, 1}, {1, -1, 1}};
    struct tutti_pipeline_times sum;
    struct tutti_err err;
    enum tutti_pipeline kind = TUTTI_PIPELINE_GPIPE;

    check_refused(params_of(TUTTI_PIPELINE_1F1B, 0, 1, 0),
                  "a pipeline of no devices, or of no micro-batches");
    check_refused(params_of(TUTTI_PIPELINE_COUNT, 1, 1, 0), "a pipeline of an unknown kind");
    check_refused(params_of(TUTTI_PIPELINE_1F1B, 2, 2, 2),
                  "pipeline '1f1b' with '2' chunks a device (interleaved: 2 or more, zbv: 2, "
                  "others: 1)");
    check_refused(params_of(TUTTI_PIPELINE_INTERLEAVED, 4, 6, 2),
                  "pipeline 'interleaved' of 4 devices with '6' micro-batches (a multiple of the "
                  "devices)");
    check_refused(params_of(TUTTI_PIPELINE_ZB_H1, 4, 3, 0),
                  "pipeline 'zb-h1' of 4 devices with '3' micro-batches (4 or more; 1f1b)");
    check_refused(params_of(TUTTI_PIPELINE_GPIPE, 1 << 20, 1 << 20, 0),
                  "a pipeline of '1048576' devices and '1048576' micro-batches (at most 67108864 "
                  "tasks in all)");
    check_refused(params_of(TUTTI_PIPELINE_GPIPE, UINT32_MAX, UINT32_MAX, 1),
                  "a pipeline of '4294967295' devices and '4294967295' micro-batches (at most "
                  "67108864 tasks in all)");
    CHECK_INT(tutti_pipeline_play(&p, times, 0, NULL, &sum, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "stage 1 of a pipeline takes less than no time");
    times[1].backward_ps = INT64_MAX / 2;
    CHECK_INT(tutti_pipeline_play(&p, times, 0, NULL, &sum, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "a pipeline takes longer than times can say");
    CHECK_INT(tutti_pipeline_play(&p, times, -1, NULL, &sum, &err), -TUTTI_EINVAL);
    CHECK_OK(tutti_pipeline_find("ZB-H2", &kind, &err), err);
    CHECK_INT(kind, TUTTI_PIPELINE_ZB_H2);
    CHECK_INT(tutti_pipeline_find("1f1", &kind, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "unknown pipeline '1f1' (did you mean '1f1b'? all: "
                         "gpipe|1f1b|interleaved|zb-h1|zb-h2|zbv)");
}

/* The step of Llama 3 405B's pipeline on 16 stages, at once. */
TEST(a_large_pipeline_is_played_in_no_time)
{
    struct tutti_pipeline_params p = params_of(TUTTI_PIPELINE_INTERLEAVED, 16, 1024, 8);
    struct tutti_stage_times *times = equal_times(&p, 80, 80, 80);
    struct tutti_pipeline_times sum = {0, 0};
    struct tutti_err err;

    CHECK_OK(tutti_pipeline_play(&p, times, 0, NULL, &sum, &err), err);
    CHECK_INT(sum.step_ps, 1024 * 240 + 15 * 240 / 8);
    free(times);
}
