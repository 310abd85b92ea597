/* Random ways to divide a model: each is refused in one line that names what does not go together,
 * or its groups part the ranks, its stages cover the layers, and its traffic and memory are those
 * of formulas written here once more, straight from the papers. */
#include "sim/footprint.h"
#include "tests/sim/parallel_draws.h"

enum { RANKS_MAX = 4096, LAYERS_MAX = 8, VOCABULARY = 240, TASKS_MAX = 3 * 3 * 20 };

/* ---- groups and stages ----------------------------------------------------------------------- */

/* Group of each rank; every rank in one, members in as many groups as there are. */
static void check_partition(const struct draw *w, enum tutti_parallel_group kind, uint32_t size,
                            uint32_t *group_of)
{
    const struct tutti_axis axis = tutti_parallel_axis(&w->p, kind);
    const uint32_t ranks = tutti_parallel_ranks(&w->p);
    uint32_t member;

    CHECK_INT(axis.size, size);
    CHECK_INT((uint64_t)tutti_axis_group_count(&axis) * axis.size, ranks);
    for (uint32_t r = 0; r < ranks; r++) {
        if (!tutti_axis_find(&axis, r, &group_of[r], &member) ||
            tutti_axis_rank(&axis, group_of[r], member) != r)
            TEST_FAIL("rank %u is in no group of '%s'", r, axis.name);
    }
}

/* Whether two ranks are in the same place but for some dimensions. */
static bool differ_in(const struct draw *w, uint32_t a, uint32_t b, unsigned dims)
{
    const uint32_t sizes[TUTTI_DIM_COUNT] = {w->d.tensor, w->d.context, 1, w->d.data,
                                             w->d.pipeline};

    for (int i = 0; i < TUTTI_DIM_COUNT; i++) {
        const uint32_t size = sizes[w->d.order[i]];

        if ((dims & 1U << w->d.order[i]) == 0 && a % size != b % size)
            return false;
        a /= size;
        b /= size;
    }
    return true;
}

/* Two ways to part the same groups: no two ranks meet in both. */
static void check_crossing(const struct draw *w, const uint32_t *one, const uint32_t *other)
{
    for (uint32_t r = 1; r < tutti_parallel_ranks(&w->p); r++)
        if (one[0] == one[r] && other[0] == other[r])
            TEST_FAIL("ranks 0 and %u meet twice", r);
}

static void check_groups(const struct draw *w)
{
    enum { CONTEXT_DATA = 1U << TUTTI_DIM_CONTEXT | 1U << TUTTI_DIM_DATA };
    static uint32_t groups[TUTTI_GROUP_COUNT][RANKS_MAX];
    const uint32_t n = w->d.context * w->d.data;
    const uint32_t ranks = w->d.tensor * n * w->d.pipeline;
    const struct {
        enum tutti_parallel_group kind;
        uint32_t size;
        unsigned dims;
        bool whole; /* all that differ in these are in it */
    } kinds[] = {{TUTTI_GROUP_TENSOR, w->d.tensor, 1U << TUTTI_DIM_TENSOR, true},
                 {TUTTI_GROUP_CONTEXT, w->d.context, 1U << TUTTI_DIM_CONTEXT, true},
                 {TUTTI_GROUP_PIPELINE, w->d.pipeline, 1U << TUTTI_DIM_PIPELINE, true},
                 {TUTTI_GROUP_DATA, n, CONTEXT_DATA, true},
                 {TUTTI_GROUP_EXPERT, w->d.expert, CONTEXT_DATA, false},
                 {TUTTI_GROUP_EXPERT_DATA, n / w->d.expert, CONTEXT_DATA, false},
                 {TUTTI_GROUP_SHARD, w->d.shard_ranks, CONTEXT_DATA, false},
                 {TUTTI_GROUP_ACROSS, n / w->d.shard_ranks, CONTEXT_DATA, false},
                 {TUTTI_GROUP_ALL, ranks, ~0U, true}};

    CHECK_INT(tutti_parallel_ranks(&w->p), ranks);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const uint32_t *of = groups[kinds[i].kind];

        check_partition(w, kinds[i].kind, kinds[i].size, groups[kinds[i].kind]);
        for (uint32_t r = 0; r < ranks; r++) {
            const bool same = differ_in(w, 0, r, kinds[i].dims);

            if (of[0] == of[r] ? !same : same && kinds[i].whole)
                TEST_FAIL("rank %u in the wrong group of kind %d", r, (int)kinds[i].kind);
        }
    }
    check_crossing(w, groups[TUTTI_GROUP_EXPERT], groups[TUTTI_GROUP_EXPERT_DATA]);
    check_crossing(w, groups[TUTTI_GROUP_SHARD], groups[TUTTI_GROUP_ACROSS]);
}

static void check_cover(const struct draw *w)
{
    uint32_t sums[LAYERS_MAX] = {0};
    uint32_t repeats[LAYERS_MAX];

    for (uint32_t stage = 0; stage < tutti_parallel_stage_count(&w->p); stage++) {
        tutti_parallel_stage_repeats(&w->p, w->model, stage, repeats);
        for (uint32_t i = 0; i < w->model->layer_count; i++)
            sums[i] += repeats[i];
    }
    for (uint32_t i = 0; i < w->model->layer_count; i++)
        CHECK_INT(sums[i], w->model->layers[i].repeat);
}

/* ---- formulas -------------------------------------------------------------------------------- */

/* What a device has, by the numbers of the model alone. */
struct part {
    uint32_t device;
    double t, c, e, n;     /* degrees; n reduce dense gradients */
    double s, b, h, f, kv; /* kv: columns of keys, or of values */
    double kv_parts;       /* that those are held in: heads are whole */
    double layers;         /* of all of its stages */
    bool first, last;
    double messages;                    /* of a micro-batch */
    double dense, experts, whole, tied; /* parameters */
    double busy;                        /* tokens of the busiest expert's rank over the mean */
};

static uint32_t layers_on(const struct draw *w, uint32_t stage)
{
    const uint32_t stages = w->d.pipeline * w->d.virtual_stages;

    if (w->d.stage_layers != NULL)
        return w->layers_of[stage];
    if (stages == w->shape.layers + 1) /* the last has the head alone, */
        return stage + 1 < stages;
    if (stages == w->shape.layers + 2) /* and the first the embedding */
        return stage > 0 && stage + 1 < stages;
    return w->shape.layers / stages + (stage < w->shape.layers % stages);
}

static uint32_t device_of(const struct draw *w, uint32_t stage)
{
    const bool back = w->d.schedule == TUTTI_PIPELINE_ZBV && stage >= w->d.pipeline;

    return back ? 2 * w->d.pipeline - 1 - stage : stage % w->d.pipeline;
}

static void count_parameters(const struct draw *w, struct part *o)
{
    const double embedding = VOCABULARY * o->h / o->t;
    const double routed = w->shape.experts > 0 ? o->h * w->shape.experts : 0;
    const double feed = 3 * o->h * o->f / o->t;
    const bool apart = o->e > 1;
    const double norms = w->gpt ? 6 * o->h : 2 * o->h + routed;
    double layer = norms + 2 * o->h * o->h / o->t + 2 * o->h * o->kv / o->kv_parts;

    if (w->gpt)
        layer += (8 * o->h * o->h + 7 * o->h) / o->t;
    else if (w->shape.experts == 0)
        layer += feed;
    else if (!apart)
        layer += feed * w->shape.experts;
    o->experts = apart ? o->layers * feed * w->shape.experts / o->e : 0;
    o->whole = o->layers * norms + (w->gpt && o->first ? o->s * o->h : 0) +
               (o->last ? (w->gpt ? 2 * o->h : o->h) : 0);
    o->dense = o->layers * layer + (o->first ? embedding + (w->gpt ? o->s * o->h : 0) : 0) +
               (o->last ? (w->gpt ? 2 * o->h : o->h + embedding) : 0);
    o->tied = w->gpt && (o->first != o->last) ? embedding : 0;
    if (w->gpt && o->last && !o->first)
        o->dense += embedding;
}

static struct part part_of(const struct draw *w, uint32_t device)
{
    const uint32_t stages = w->d.pipeline * w->d.virtual_stages;
    struct part o = {.device = device,
                     .t = w->d.tensor,
                     .c = w->d.context,
                     .e = w->d.expert,
                     .n = w->d.context * w->d.data,
                     .s = (double)w->s,
                     .b = w->d.micro_batch,
                     .h = w->shape.hidden,
                     .f = w->shape.feed_forward,
                     .kv = w->shape.hidden / w->shape.heads * w->shape.kv_heads,
                     .kv_parts = w->d.tensor < w->shape.kv_heads ? w->d.tensor : w->shape.kv_heads,
                     .busy = 1};

    for (uint32_t stage = 0; stage < stages; stage++) {
        if (stage + 1 < stages && device_of(w, stage) != device_of(w, stage + 1))
            o.messages += (device_of(w, stage) == device) + (device_of(w, stage + 1) == device);
        if (device_of(w, stage) != device)
            continue;
        o.layers += layers_on(w, stage);
        o.first = o.first || stage == 0;
        o.last = o.last || stage + 1 == stages;
    }
    count_parameters(w, &o);
    if (o.e > 1) {
        const double all = w->shape.experts;

        o.busy =
            (w->d.imbalance + (all / o.e - 1) * (all - w->d.imbalance) / (all - 1)) * o.e / all;
    }
    return o;
}

static void expect(const struct draw *w, const char *what, uint64_t seen, double value,
                   double slack)
{
    if ((double)seen < value * (1 - 2e-6 * (w->d.imbalance > 1)) - slack ||
        (double)seen > value * (1 + 2e-6 * (w->d.imbalance > 1)) + slack)
        TEST_FAIL("%s of tp %u cp %u ep %u dp %u pp %u x %u: %llu, not %.1f", what, w->d.tensor,
                  w->d.context, w->d.expert, w->d.data, w->d.pipeline, w->d.virtual_stages,
                  (unsigned long long)seen, value);
}

/* facts of section 5 of the papers: what a layer sends of one micro-batch. */
static void check_layers(const struct draw *w, const struct part *o,
                         const struct tutti_parallel_traffic *seen)
{
    const double times = o->layers * w->d.micro_batches;
    const double sum = 2 * (o->t - 1) / o->t * 2 * o->s * o->b * o->h / o->c; /* an all-reduce */
    const double again = w->full ? 2 : 1;
    const double a = w->shape.heads, kv = w->shape.kv_heads;
    const double block = 2 * 2 * o->s * o->b * o->h / a / o->c * (kv > o->t ? kv / o->t : 1);
    const double spread = kv > o->t * o->c ? kv : o->t * o->c; /* heads, repeated */
    const double tokens = 2 * o->s * o->b * o->h / o->c / o->t * w->shape.active_experts;
    const double gather = w->d.sequence_parallel ? sum / 2 : 0;
    double tensor = (again + 1) * 2 * sum + (w->shape.experts > 0 ? 1 : 2) * gather;
    double context = (again + 2) * (o->c - 1) * block;

    if (o->e > 1) /* attention, and k copies gathered and scattered */
        tensor = (again + 1) * sum * (1 + w->shape.active_experts * o->busy) + gather;
    if (w->d.context_kind == TUTTI_CONTEXT_ULYSSES)
        context = (again + 1) * (o->c - 1) / o->c * 2 * o->s * o->b * o->h / o->c / o->t *
                  (2 + 2 * spread / a);
    expect(w, "tensor", seen->bytes[TUTTI_TRAFFIC_TENSOR], times * tensor,
           o->busy > 1 ? times * 64 : 0.5);
    expect(w, "context", seen->bytes[TUTTI_TRAFFIC_CONTEXT], times * context, 0.5);
    expect(w, "expert", seen->bytes[TUTTI_TRAFFIC_EXPERT],
           times * (again + 1) * tokens * (o->e > 1 ? (o->e + o->busy * (o->e - 2)) / o->e : 0),
           times * 64);
}

static void check_ends(const struct draw *w, const struct part *o,
                       const struct tutti_parallel_traffic *seen)
{
    const double m = w->d.micro_batches;
    const double sum = 2 * (o->t - 1) / o->t * 2 * o->s * o->b * o->h / o->c;
    const double message = 2 * o->s * o->b * o->h / o->c;
    const bool sp = w->d.sequence_parallel;
    const double copies = o->t > w->shape.kv_heads ? o->t / w->shape.kv_heads : 1;

    expect(w, "embedding", seen->bytes[TUTTI_TRAFFIC_EMBEDDING], o->first ? m * sum : 0, 0.5);
    expect(w, "head", seen->bytes[TUTTI_TRAFFIC_HEAD], o->last ? m * (sp ? 1.5 : 1) * sum : 0, 0.5);
    expect(w, "loss", seen->bytes[TUTTI_TRAFFIC_LOSS],
           o->last ? m * 3 * 2 * (o->t - 1) / o->t * 4 * o->s * o->b / o->c : 0, m * 3 * 8);
    expect(w, "pipeline", seen->bytes[TUTTI_TRAFFIC_PIPELINE],
           m * o->messages * message / (sp || w->d.scatter_gather ? o->t : 1), 0.5);
    expect(w, "pipeline gather", seen->bytes[TUTTI_TRAFFIC_PIPELINE_GATHER],
           w->d.scatter_gather ? m * o->messages * message * (o->t - 1) / o->t : 0, 0.5);
    expect(w, "tied", seen->bytes[TUTTI_TRAFFIC_TIED], 4 * o->tied, 0.5);
    expect(w, "whole", seen->bytes[TUTTI_TRAFFIC_WHOLE],
           (sp ? 2 * (o->t - 1) / o->t * 4 * o->whole : 0) +
               2 * (copies - 1) / copies * 4 * o->layers * 2 * o->h * o->kv / w->shape.kv_heads,
           16);
}

static void check_states(const struct draw *w, const struct part *o,
                         const struct tutti_parallel_traffic *seen)
{
    const double k = w->d.shard_ranks;
    const double parts = o->n / o->e; /* that reduce an expert's gradients */
    const double m = w->d.pipeline > 1 ? 1 : w->d.micro_batches;
    const enum tutti_sharding z = w->d.sharding;
    const double times = z >= TUTTI_SHARD_ZERO2 ? m : 1;
    const double gathers = z < TUTTI_SHARD_ZERO3 ? 1 : w->d.keep_weights ? m : 2 * m;
    const double slack = 16 * o->n * m;

    if (z == TUTTI_SHARD_NONE) {
        expect(w, "gradients", seen->bytes[TUTTI_TRAFFIC_GRADIENTS],
               2 * (o->n - 1) / o->n * 4 * o->dense, slack);
        expect(w, "experts' gradients", seen->bytes[TUTTI_TRAFFIC_EXPERT_GRADIENTS],
               2 * (parts - 1) / parts * 4 * o->experts, slack);
        CHECK_INT(seen->bytes[TUTTI_TRAFFIC_WEIGHTS], 0);
        return;
    }
    expect(w, "gradients", seen->bytes[TUTTI_TRAFFIC_GRADIENTS], times * (k - 1) / k * 4 * o->dense,
           slack);
    expect(w, "weights", seen->bytes[TUTTI_TRAFFIC_WEIGHTS], gathers * (k - 1) / k * 2 * o->dense,
           slack);
    expect(w, "experts' gradients", seen->bytes[TUTTI_TRAFFIC_EXPERT_GRADIENTS],
           times * (parts - 1) / parts * 4 * o->experts, slack);
    expect(w, "experts' weights", seen->bytes[TUTTI_TRAFFIC_EXPERT_WEIGHTS],
           gathers * (parts - 1) / parts * 2 * o->experts, slack);
    expect(w, "across", seen->bytes[TUTTI_TRAFFIC_ACROSS],
           2 * (o->n / k - 1) / (o->n / k) * 4 * o->dense / k, slack);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Bytes of one micro-batch that a layer keeps, attention fused: Korthikanti's 10 + 24/t for a GPT.
 */
static double layer_saved(const struct draw *w, const struct part *o)
{
    const double sb = o->s * o->b / o->c;
    const double by = w->d.sequence_parallel ? o->t : 1;
    const double k = w->shape.active_experts;
    double whole = 8 * o->h; /* two norms' inputs and what they make of them */
    double split = 2 * (2 * o->h + 2 * o->kv * o->t / o->kv_parts);

    if (w->full)
        return 2 * sb * o->h / by;
    if (w->gpt)
        return sb * o->h * (10 / by + 24 / o->t);
    if (w->shape.experts == 0)
        return sb * (whole / by + (split + 2 * 3 * o->f) / o->t);
    split += 2 * 3 * k * o->f * o->busy;
    whole += 2 * k * o->h; /* what comes back; what was sent is whole on each of t */
    return sb * (whole / by + 2 * k * o->h * (o->busy - 1 + 1) + split / o->t);
}

static double stage_saved(const struct draw *w, const struct part *o, uint32_t stage)
{
    const uint32_t stages = w->d.pipeline * w->d.virtual_stages;
    const double sbh = o->s * o->b * o->h / o->c / (w->d.sequence_parallel ? o->t : 1);

    return layers_on(w, stage) * layer_saved(w, o) + (w->gpt && stage == 0 ? sbh : 0) +
           (stage + 1 == stages ? 4 * sbh : 0); /* the mask of dropout; the last norm */
}

/* At most at once, all tasks of the device played. */
static double most_saved(const struct draw *w, const struct part *o)
{
    const struct tutti_pipeline_params pipeline = tutti_parallel_pipeline(&w->p);
    static struct tutti_pipeline_task tasks[TASKS_MAX];
    double here = 0;
    double most = 0;

    CHECK(tutti_pipeline_task_count(&pipeline) <= TASKS_MAX);
    tutti_pipeline_tasks(&pipeline, o->device, tasks);
    for (uint32_t i = 0; i < tutti_pipeline_task_count(&pipeline); i++) {
        const double bytes =
            stage_saved(w, o, tutti_pipeline_stage(&pipeline, o->device, tasks[i].chunk));

        if (tasks[i].pass == TUTTI_PASS_FORWARD)
            here += bytes;
        else if (tasks[i].pass == TUTTI_PASS_WEIGHTS || !tutti_pipeline_splits(&pipeline))
            here -= bytes;
        most = here > most ? here : most;
    }
    return most;
}

/* 2 + 4 + 12 bytes a parameter. */
static void check_memory(const struct draw *w, const struct part *o,
                         const struct tutti_footprint *f)
{
    const enum tutti_sharding z = w->d.sharding;
    const double by = w->d.shard_ranks;
    const double expert_by = o->e > 1 ? o->n / o->e : by;
    const double whole = o->dense + o->experts;
    const double shared = o->dense / by + o->experts / expert_by;

    expect(w, "weights held", f->bytes[TUTTI_MEMORY_WEIGHTS],
           2 * (z >= TUTTI_SHARD_ZERO3 ? shared : whole), 4);
    expect(w, "gradients held", f->bytes[TUTTI_MEMORY_GRADIENTS],
           4 * (z >= TUTTI_SHARD_ZERO2 ? shared : whole), 4);
    expect(w, "optimizer", f->bytes[TUTTI_MEMORY_OPTIMIZER],
           12 * (z >= TUTTI_SHARD_ZERO1 ? shared : whole), 4);
    expect(w, "activations", f->bytes[TUTTI_MEMORY_ACTIVATIONS], most_saved(w, o),
           o->busy > 1 ? 1e5 : 0.5);
    expect(w, "logits", f->bytes[TUTTI_MEMORY_LOGITS],
           o->last ? 14 * VOCABULARY * o->s * o->b / o->c / o->t : 0, 0.5);
}

static void check_devices(const struct draw *w)
{
    const struct tutti_footprint_params params = {.size = sizeof(params),
                                                  .model = w->model,
                                                  .precision = TUTTI_PRECISION_BF16,
                                                  .optimizer = TUTTI_OPTIMIZER_ADAM,
                                                  .gradient_bytes = 4,
                                                  .fused_attention = true,
                                                  .recompute = w->full ? TUTTI_RECOMPUTE_FULL
                                                                       : TUTTI_RECOMPUTE_NONE,
                                                  .parallel = &w->p};
    struct tutti_footprint footprints[DEVICES_MAX];
    struct tutti_err err = {""};

    CHECK_OK(tutti_footprint_stages(&params, footprints, &err), err);
    for (uint32_t device = 0; device < w->d.pipeline; device++) {
        const struct tutti_parallel_traffic_params asked = {.size = sizeof(asked),
                                                            .parallel = &w->p,
                                                            .model = w->model,
                                                            .device = device,
                                                            .full_recompute = w->full};
        const struct part o = part_of(w, device);
        struct tutti_parallel_traffic seen = {0};

        CHECK_OK(tutti_parallel_traffic_of(&asked, &seen, &err), err);
        check_layers(w, &o, &seen);
        check_ends(w, &o, &seen);
        check_states(w, &o, &seen);
        check_memory(w, &o, &footprints[device]);
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

TEST(each_is_refused_by_name_or_right)
{
    const uint64_t count = test_cheap_count(20000, 500);
    struct tutti_random random;
    uint64_t taken = 0;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < count && test_failures == 0; i++) {
        struct draw w = draw(&random);
        struct tutti_err err = {""};
        int status;

        w.p.stage_layers = w.p.stage_layers != NULL ? w.layers_of : NULL;
        CHECK_OK(tutti_parallel_complete(&w.p, &w.d, &err), err);
        status = tutti_parallel_check(&w.p, w.model, &err);
        check_refusal(&w, status, err.text);
        if (status == 0) {
            taken++;
            check_groups(&w);
            check_cover(&w);
            check_devices(&w);
        }
        tutti_model_free(w.model);
        if (test_failures > 0)
            TEST_FAIL("combination %llu of seed %llu", (unsigned long long)i,
                      (unsigned long long)test_seed);
    }
    printf("%llu of %llu accepted\n", (unsigned long long)taken, (unsigned long long)count);
    CHECK(taken * 8 > count);
}
