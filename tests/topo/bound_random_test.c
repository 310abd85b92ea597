/* Property: nothing that is simulated under `fair` is faster than its bound, whatever the machine,
 * collective, algorithm, size and protocol; and what beats it under `alphabeta` is called so. */
#include "sim/predict.h"
#include "tests/machines.h"
#include "tests/sim/fold_cases.h"
#include "tests/sim/paced.h"
#include "tests/test.h"
#include "tests/topo/random_machine.h"

/* Plays to hold against their bounds: TUTTI_BOUND_CASES, or a few, or with TUTTI_TEST_FULL many. */
static uint32_t case_count(void)
{
    const char *text = getenv("TUTTI_BOUND_CASES");

    if (text != NULL)
        return (uint32_t)strtoul(text, NULL, 10);
    return (uint32_t)test_count(20000, 2000);
}

static uint32_t between(struct tutti_random *random, uint32_t low, uint32_t high)
{
    return low + below(random, high - low + 1);
}

/* A grid of one to four axes, up to about a hundred devices. */
static void draw_grid(struct tutti_random *random, char *spec, size_t spec_bytes)
{
    uint32_t axes = between(random, 1, 4);
    uint32_t longest = axes == 1 ? 24 : axes == 2 ? 9 : axes == 3 ? 5 : 3;
    size_t used = (size_t)snprintf(spec, spec_bytes, "%s:", below(random, 3) ? "torus" : "mesh");

    for (uint32_t i = 0; i < axes; i++)
        used += (size_t)snprintf(spec + used, spec_bytes - used, "%s%u", i > 0 ? "x" : "",
                                 between(random, 2, longest));
    (void)snprintf(spec + used, spec_bytes - used, ",bw=%uGB/s,lat=%uns", between(random, 1, 90),
                   below(random, 3000));
}

static void draw_cluster(struct tutti_random *random, char *spec, size_t spec_bytes)
{
    static const char *const presets[] = {"dgx-a100", "dgx-h100", "hgx-b200", "mi300x",
                                          "dgx-1v",   "dgx-1p",   "dgx-2"};
    uint32_t count = (uint32_t)(sizeof(presets) / sizeof(presets[0]));

    switch (below(random, 4)) {
    case 0:
        (void)snprintf(spec, spec_bytes, "rail:nodes=%u,gpus=4,nics=%u", between(random, 1, 5),
                       1u << below(random, 3));
        break;
    case 1:
        (void)snprintf(spec, spec_bytes, "pcie:gpus=%u,sockets=2,switches=2",
                       4 * between(random, 1, 2));
        break;
    case 2:
        (void)snprintf(spec, spec_bytes, "tpu-v4:2x2x%u,slices=%u", between(random, 1, 2),
                       between(random, 1, 3));
        break;
    default:
        (void)snprintf(spec, spec_bytes, "%s:nodes=%u", presets[below(random, count)],
                       between(random, 1, 3));
        break;
    }
}

static void draw_spec(struct tutti_random *random, char *spec, size_t spec_bytes)
{
    uint32_t n = between(random, 2, 24);
    uint32_t lat = below(random, 3000);

    switch (below(random, 6)) {
    case 0:
        (void)snprintf(spec, spec_bytes, "ring:n=%u,lat=%uns", n, lat);
        break;
    case 1:
        (void)snprintf(spec, spec_bytes, "switch:n=%u,lat=%uns%s", n, lat,
                       below(random, 4) == 0 ? ",reduces" : "");
        break;
    case 2:
        (void)snprintf(spec, spec_bytes, "fattree:arity=%u,levels=2,over=%u", between(random, 2, 5),
                       between(random, 1, 4));
        break;
    case 3:
        draw_cluster(random, spec, spec_bytes);
        break;
    default:
        draw_grid(random, spec, spec_bytes);
        break;
    }
}

/* Any machine; half of them with links slowed down here and there. Writes what it is. */
static struct tutti_topo *draw_any(struct tutti_random *random, char *spec, size_t spec_bytes)
{
    struct tutti_topo *topo = NULL;

    if (below(random, 4) == 0) {
        (void)snprintf(spec, spec_bytes, "random");
        return random_machine(random, between(random, 2, 16), below(random, 6), below(random, 2));
    }
    while (topo == NULL) { /* not every ratio of uplinks can be built */
        draw_spec(random, spec, spec_bytes);
        (void)tutti_topo_from_spec(spec, &topo, NULL);
    }
    if (below(random, 2) == 0)
        disturb(random, topo);
    return topo;
}

/* One of the algorithms that serve a collective. */
static const char *draw_algorithm(struct tutti_random *random, enum tutti_collective collective)
{
    size_t count;
    const struct tutti_algorithm *algorithms = tutti_algorithms(&count);
    size_t at = below(random, (uint32_t)count);

    while ((algorithms[at].collectives >> collective & 1) == 0)
        at = below(random, (uint32_t)count);
    return algorithms[at].name;
}

/* What to ask of it: 4 B to 8 GiB, all sizes of bits alike. */
static struct tutti_ask draw_ask(struct tutti_random *random, const struct tutti_topo *topo,
                                 struct tutti_protocol *paced)
{
    static const char *const protocols[] = {"none", "none", "ll", "ll128", "simple"};
    enum tutti_collective collective = (enum tutti_collective)below(random, TUTTI_CUSTOM);
    uint64_t bytes = (UINT64_C(4) << below(random, 32)) - below(random, 4);
    struct tutti_ask ask = {
        .size = sizeof(struct tutti_ask),
        .empty = true,
        .topo = topo,
        .algorithm = draw_algorithm(random, collective),
        .params = {.collective = collective,
                   .dtype = TUTTI_FLOAT32,
                   .op = TUTTI_SUM,
                   .root = below(random, topo->rank_count),
                   .channel_count = below(random, 4),
                   .slice_count = between(random, 1, 3)},
        .protocol = protocols[below(random, 5)],
        .protocols = paced,
        .model = below(random, 4) == 0 ? TUTTI_MODEL_ALPHABETA : TUTTI_MODEL_FAIR,
        .seed = below(random, 1000),
        .jitter = below(random, 8) == 0 ? 0.1 : 0,
        .fold = below(random, 2) == 0 ? "auto" : "off",
        .step_count_max = 30000,
    };

    draw_protocols(random, paced);
    ask.params.count =
        tutti_collective_count_for(ask.params.collective, bytes, TUTTI_FLOAT32, topo->rank_count);
    if (below(random, 2) == 0)
        ask.params.chunk_bytes = bytes / between(random, 1, 40) + 4;
    return ask;
}

struct tally {
    uint32_t played;
    uint32_t fair;
    uint32_t beaten;
    double closest; /* percent of the bound, under fair */
};

static void hold(uint32_t number, const char *spec, const struct tutti_ask *ask,
                 struct tally *tally)
{
    struct tutti_answer answer = {0};
    struct tutti_err err = {""};

    if (tutti_predict(ask, &answer, &err) < 0)
        return; /* it does not fit, or takes too long */
    tally->played++;
    tally->beaten += answer.beats_bound;
    CHECK(answer.beats_bound == (answer.time_ps < answer.bound.time_ps));
    if (ask->model != TUTTI_MODEL_FAIR)
        return;
    tally->fair++;
    if (answer.percent_of_bound > tally->closest)
        tally->closest = answer.percent_of_bound;
    if (answer.beats_bound || answer.percent_of_bound > 100)
        TEST_FAIL("machine %u: %s, %s of %" PRIu64 " elements by %s, protocol %s, %u channels, %u "
                  "slices, chunk %" PRIu64 ", root %u, fold %s: %" PRId64 " ps, below the bound of "
                  "%" PRId64 " (%s)",
                  number, spec, tutti_collective_name(ask->params.collective), ask->params.count,
                  ask->algorithm, ask->protocol, ask->params.channel_count, ask->params.slice_count,
                  ask->params.chunk_bytes, ask->params.root, ask->fold, answer.time_ps,
                  answer.bound.time_ps, answer.bound.binding);
}

TEST(no_play_beats_its_bound_or_is_said_to)
{
    struct tutti_random random;
    struct tally tally = {0};
    uint32_t cases = case_count();

    tutti_random_seed(&random, test_seed);
    for (uint32_t i = 0; tally.played < cases && test_failures == 0; i++) {
        char spec[96];
        struct tutti_topo *topo = draw_any(&random, spec, sizeof(spec));

        for (int k = 0; k < 4; k++) {
            struct tutti_protocol paced[TUTTI_PROTOCOLS];
            struct tutti_ask ask = draw_ask(&random, topo, paced);

            hold(i, spec, &ask, &tally);
        }
        tutti_topo_free(topo);
    }
    printf("        %u plays, %u of them fair (closest %.4f %% of the bound); model alphabeta beat "
           "it %u times\n",
           tally.played, tally.fair, tally.closest, tally.beaten);
    CHECK(tally.fair * 2 > cases);
    CHECK(tally.beaten > 0 || cases < 1000);
}
