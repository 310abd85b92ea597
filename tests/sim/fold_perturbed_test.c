/* Folded equals unfolded, to the picosecond, on perturbed machines: rings, tori of one to four
 * axes, switches and hierarchies of up to 512 devices, and a few of 4096, by any algorithm.
 *
 * TUTTI_FOLD_CASES=N sets how many cases are folded and compared; more are drawn, each from the
 * seed and its number. */
#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/predict.h"
#include "sim/protocol.h"
#include "tests/machines.h"
#include "tests/sim/paced.h"
#include "tests/test.h"
#include "topo/graph/routes.h"
#include "topo/perturb.h"

enum {
    SPEC_BYTES = 128,
    WORDS_BYTES = 160,
    CASES = 600, /* that fold and are compared */
    CASES_FULL = 20000,
    DRAWS_MAX = 12, /* for each of them */
    LARGE_CASES = 50,
    OTHERS_RANKS_MAX = 40,
};

enum family { RING, TORUS, SWITCH, HIERARCHY, FAMILY_COUNT };

static const char *const family_names[FAMILY_COUNT] = {"ring", "torus", "switch", "hierarchy"};

struct scene {
    struct tutti_random random;
    enum family family;
    char spec[SPEC_BYTES];
    char words[WORDS_BYTES]; /* of the perturbation; "": none */
    struct tutti_topo *topo;
    tutti_ps *start_ps;
    struct tutti_bound_law no_bound; /* it is not asked for here, and takes time */
    struct tutti_protocol protocols[TUTTI_PROTOCOLS];
    struct tutti_ask ask;
};

/* Cases drawn, and folded. */
struct tally {
    uint32_t drawn[FAMILY_COUNT][2]; /* [as they should be, perturbed] */
    uint32_t folded[FAMILY_COUNT][2];
    uint32_t compared;
    uint32_t several; /* folded into more than one rank */
    uint32_t fair;
};

static uint32_t below(struct scene *scene, uint32_t bound)
{
    return (uint32_t)tutti_random_below(&scene->random, bound);
}

static uint32_t between(struct scene *scene, uint32_t least, uint32_t most)
{
    return least + below(scene, most - least + 1);
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* "4x3x2", of one to four axes. */
static void draw_grid(struct scene *scene, uint32_t ranks_max, char *text, size_t bytes)
{
    uint32_t axes = between(scene, 1, 4);
    uint32_t left = ranks_max;
    size_t used = 0;

    for (uint32_t d = 0; d < axes && left >= 2; d++) {
        uint32_t size = between(scene, 2, left < 16 || axes == 1 ? left : 16);

        used += (size_t)snprintf(text + used, bytes - used, "%s%u", d > 0 ? "x" : "", size);
        left /= size;
    }
}

static void draw_hierarchy(struct scene *scene, uint32_t ranks_max)
{
    static const char *const forms[] = {"dgx-h100:nodes=%u", "dgx-a100:nodes=%u", "mi300x:nodes=%u",
                                        "rail:gpus=8,group=2,nodes=%u", "dgx-1v:nodes=%u"};
    uint32_t form = below(scene, sizeof(forms) / sizeof(forms[0]));
    uint32_t hosts_max = ranks_max / 8 > 0 ? ranks_max / 8 : 1;

    snprintf(scene->spec, sizeof(scene->spec), forms[form],
             form == 3 ? 2 * between(scene, 1, hosts_max / 2 + 1) : between(scene, 1, hosts_max));
}

static void draw_spec(struct scene *scene, uint32_t ranks_max)
{
    static const char *const links[] = {"", ",lat=0ns", ",bw=7GB/s", ",bw=999MB/s,lat=13us"};
    char grid[64] = "";

    scene->family = (enum family)below(scene, FAMILY_COUNT);
    if (scene->family == HIERARCHY) {
        draw_hierarchy(scene, ranks_max);
        return;
    }
    if (scene->family == TORUS)
        draw_grid(scene, ranks_max, grid, sizeof(grid));
    else
        snprintf(grid, sizeof(grid), "n=%u", between(scene, 2, ranks_max));
    snprintf(scene->spec, sizeof(scene->spec), "%s:%s%s", family_names[scene->family], grid,
             links[below(scene, 4)]);
}

static void add_word(struct scene *scene)
{
    size_t used = strlen(scene->words);
    char *at = scene->words + used;
    size_t room = sizeof(scene->words) - used;
    const char *comma = used > 0 ? "," : "";

    switch (below(scene, 8)) {
    case 0:
        snprintf(at, room, "%sslow-link=1:%u.%u", comma, between(scene, 1, 9), below(scene, 10));
        break;
    case 1:
        snprintf(at, room, "%sslow-link=%u%%:2", comma, between(scene, 1, 50));
        break;
    case 2:
        snprintf(at, room, "%sslow-node=1:1.%u", comma, between(scene, 1, 9));
        break;
    case 3:
        snprintf(at, room, "%sslow-node=%u%%:1.2", comma, between(scene, 1, 40));
        break;
    case 4:
        if (strstr(scene->words, "latency") == NULL)
            snprintf(at, room, "%slatency=1..1.%u", comma, between(scene, 1, 9));
        break;
    case 5:
        if (strstr(scene->words, "rates") == NULL)
            snprintf(at, room, "%srates=1/0.9/0.%u", comma, between(scene, 1, 8));
        break;
    default:
        if (strstr(scene->words, "start") == NULL)
            snprintf(at, room, "%sstart=%u%s", comma, between(scene, 1, 999),
                     below(scene, 2) == 0 ? "ns" : "us");
        break;
    }
}

/* Where flows can be put on spines by hash. */
static void add_ecmp(struct scene *scene)
{
    size_t used = strlen(scene->words);

    if (tutti_topo_routes_choose(scene->topo) && below(scene, 2) == 0)
        snprintf(scene->words + used, sizeof(scene->words) - used, "%secmp=hash",
                 used > 0 ? "," : "");
}

/* Whether the last word, behind the comma at `comma`, stands there before: that is refused. */
static bool is_twice(const char *words, size_t comma)
{
    const char *last = words + comma + 1;
    size_t bytes = strlen(last);

    for (const char *word = words; word < last; word += strcspn(word, ",") + 1) {
        if (strcspn(word, ",") == bytes && strncmp(word, last, bytes) == 0)
            return true;
    }
    return false;
}

static void disturb(struct scene *scene)
{
    static struct tutti_perturb perturb; /* large */
    uint32_t count = below(scene, 4);
    uint64_t seed = tutti_random_next(&scene->random);
    struct tutti_err err = {""};

    for (uint32_t i = 0; i < count; i++) {
        size_t used = strlen(scene->words);

        add_word(scene);
        if (used > 0 && scene->words[used] != '\0' && is_twice(scene->words, used))
            scene->words[used] = '\0';
    }
    add_ecmp(scene);
    perturb.item_count = 0;
    if (scene->words[0] == '\0')
        return;
    CHECK_OK(tutti_perturb_add(&perturb, scene->words, &err), err);
    CHECK_OK(tutti_topo_perturb(scene->topo, &perturb, seed, &err), err);
    CHECK_OK(tutti_perturb_starts(&perturb, seed, scene->topo->rank_count, &scene->start_ps, &err),
             err);
    scene->ask.start_ps = scene->start_ps;
}

/* Rings, tori and hierarchies are what folds; now and then another one, where there are few ranks:
 * some send from everybody to everybody, which takes seconds to play unfolded among hundreds. */
static const char *draw_algorithm(struct scene *scene, enum tutti_collective collective)
{
    static const char *const nests[] = {"ring", "ring-bidirectional", "torus", "hierarchical"};
    size_t count = 0;
    const struct tutti_algorithm *algorithms = tutti_algorithms(&count);
    const struct tutti_algorithm *any;

    if (below(scene, 5) > 0 || scene->topo->rank_count > OTHERS_RANKS_MAX)
        return nests[below(scene, 4)];
    do {
        any = &algorithms[below(scene, (uint32_t)count)];
    } while ((any->collectives & 1u << (unsigned)collective) == 0);
    return any->name;
}

/* Any size from nothing to 4 GiB, mostly one that can be cut into equal parts. */
static uint64_t draw_count(struct scene *scene)
{
    uint64_t count = tutti_random_below(&scene->random, UINT64_C(1) << between(scene, 1, 30));
    uint64_t whole = (uint64_t)scene->topo->rank_count * 12;

    return below(scene, 4) == 0 ? count : count / whole * whole + whole;
}

static void draw_ask(struct scene *scene)
{
    static const enum tutti_collective collectives[] = {TUTTI_ALLREDUCE, TUTTI_ALLREDUCE,
                                                        TUTTI_REDUCESCATTER, TUTTI_ALLGATHER};
    struct tutti_coll_params *params = &scene->ask.params;

    scene->no_bound = tutti_bound_law_none(scene->topo);
    scene->ask.size = sizeof(scene->ask);
    scene->ask.topo = scene->topo;
    scene->ask.bound_law = &scene->no_bound;
    scene->ask.model = below(scene, 2) == 0 ? TUTTI_MODEL_ALPHABETA : TUTTI_MODEL_FAIR;
    draw_protocols(&scene->random, scene->protocols);
    scene->ask.protocols = scene->protocols;
    scene->ask.protocol = "none";
    if (below(scene, 2) == 0)
        scene->ask.protocol = scene->protocols[below(scene, TUTTI_PROTOCOLS)].name;
    if (below(scene, 4) == 0)
        scene->ask.reduce_bytes_per_s = UINT64_C(1000000) * between(scene, 1, 500000);
    *params = (struct tutti_coll_params){
        .collective = collectives[below(scene, 4)],
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .count = draw_count(scene),
        .channel_count = below(scene, 3),
        .slice_count = below(scene, 4) == 0 ? between(scene, 1, 3) : 1,
        .slot_count = below(scene, 4) == 0 ? between(scene, 1, 9) : TUTTI_SLOTS_DEFAULT,
    };
    if (params->collective != TUTTI_ALLREDUCE) /* counts are those of one rank there */
        params->count = params->count / scene->topo->rank_count + 1;
    if (below(scene, 4) == 0) /* a few pieces, not thousands */
        params->chunk_bytes = params->count * 4 / between(scene, 1, 12) / 4 * 4 + 4;
    scene->ask.algorithm = draw_algorithm(scene, params->collective);
}

static void scene_open(struct scene *scene, uint64_t number, uint32_t ranks_max)
{
    *scene = (struct scene){.spec = ""};
    tutti_random_seed(&scene->random, tutti_random_hash(test_seed, number, ranks_max, 0));
    draw_spec(scene, ranks_max);
    scene->topo = machine(scene->spec);
    disturb(scene);
    draw_ask(scene);
}

static void scene_close(struct scene *scene)
{
    tutti_topo_free(scene->topo);
    free(scene->start_ps);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void blame(const struct scene *scene, uint64_t number, const char *what)
{
    const struct tutti_coll_params *params = &scene->ask.params;

    TEST_FAIL("seed %" PRIu64 ", case %" PRIu64 ": %s %s of %" PRIu64
              " on '%s', perturbed '%s', %s, protocol %s, %u channels, chunk %" PRIu64
              ", %u slices, %u slots, reduction %" PRIu64 ": %s",
              test_seed, number, tutti_collective_name(params->collective), scene->ask.algorithm,
              params->count, scene->spec, scene->words, tutti_model_name(scene->ask.model),
              scene->ask.protocol != NULL ? scene->ask.protocol : "none", params->channel_count,
              params->chunk_bytes, params->slice_count, params->slot_count,
              scene->ask.reduce_bytes_per_s, what);
}

static void compare(struct scene *scene, uint64_t number, struct tally *tally)
{
    bool perturbed = scene->words[0] != '\0';
    struct tutti_answer folded;
    struct tutti_answer whole;
    struct tutti_err err = {""};
    char text[256];
    int status;

    scene->ask.fold = "on";
    status = tutti_predict(&scene->ask, &folded, &err);
    if (status == -TUTTI_EINVAL)
        return; /* the algorithm does not fit the machine */
    tally->drawn[scene->family][perturbed]++;
    if (status == -TUTTI_ELACK)
        return;
    if (status < 0) {
        blame(scene, number, err.text);
        return;
    }
    scene->ask.fold = "off";
    if (tutti_predict(&scene->ask, &whole, &err) < 0) {
        blame(scene, number, err.text);
        return;
    }
    if (folded.time_ps != whole.time_ps || folded.event_count != whole.event_count) {
        snprintf(text, sizeof(text),
                 "%" PRId64 " ps and %" PRIu64 " steps folded into %u, %" PRId64 " ps and %" PRIu64
                 " steps unfolded",
                 folded.time_ps, folded.event_count, folded.class_count, whole.time_ps,
                 whole.event_count);
        blame(scene, number, text);
    }
    tally->folded[scene->family][perturbed]++;
    tally->compared++;
    tally->several += folded.class_count > 1;
    tally->fair += scene->ask.model == TUTTI_MODEL_FAIR;
}

static void print_tally(const struct tally *tally)
{
    for (int f = 0; f < FAMILY_COUNT; f++)
        printf("%-10s %5u of %5u folded, perturbed %5u of %5u\n", family_names[f],
               tally->folded[f][0], tally->drawn[f][0], tally->folded[f][1], tally->drawn[f][1]);
    printf("%u compared: %u folded into several ranks, %u under fair\n", tally->compared,
           tally->several, tally->fair);
}

static uint64_t case_count(void)
{
    const char *asked = getenv("TUTTI_FOLD_CASES");

    if (asked != NULL)
        return strtoull(asked, NULL, 10);
    return test_full ? CASES_FULL : CASES;
}

/* A case that folds is one that counts: where a family stops to fold, nothing is tested there. */
TEST(folded_times_are_those_of_all_ranks_on_perturbed_machines)
{
    struct tally tally = {.several = 0};
    uint64_t count = case_count();

    for (uint64_t i = 0; tally.compared < count && test_failures < 10; i++) {
        struct scene scene;

        REQUIRE(i < count * DRAWS_MAX); /* else hardly anything folds any more */
        scene_open(&scene, i, UINT32_C(8) << (i % 7));
        compare(&scene, i, &tally);
        scene_close(&scene);
    }
    print_tally(&tally);
    for (int f = 0; f < FAMILY_COUNT && count >= CASES; f++) {
        CHECK(tally.folded[f][0] * 20 > tally.drawn[f][0]);
        CHECK(tally.folded[f][1] * 20 > tally.drawn[f][1]);
    }
}

/* The same of 4096 devices; unfolded they take seconds each. */
TEST(and_on_machines_of_4096)
{
    static const char *const specs[] = {"ring:n=4096", "torus:64x64", "torus:16x16x16",
                                        "switch:n=4096", "dgx-h100:nodes=512"};
    static const enum family families[] = {RING, TORUS, TORUS, SWITCH, HIERARCHY};
    struct tally tally = {.several = 0};

    if (!test_full)
        SKIP("4096 devices take minutes: --full");
    for (uint64_t i = 0; tally.compared < LARGE_CASES && test_failures < 10; i++) {
        struct scene scene = {.family = families[i % 5]};

        REQUIRE(i < LARGE_CASES * DRAWS_MAX);
        tutti_random_seed(&scene.random, tutti_random_hash(test_seed, i, 4096, 0));
        snprintf(scene.spec, sizeof(scene.spec), "%s", specs[i % 5]);
        scene.topo = machine(scene.spec);
        disturb(&scene);
        draw_ask(&scene);
        compare(&scene, i, &tally);
        scene_close(&scene);
    }
    print_tally(&tally);
}

/* Three senders wait for slots that the root gives back one after another, as each reduction takes
 * its time: they are alike no more. Found by seed 11. */
TEST(senders_that_wait_for_slots_given_back_one_by_one_are_not_folded)
{
    struct scene scene = {.family = SWITCH, .spec = "switch:n=4,bw=450GB/s,lat=250ns"};
    struct tally tally = {.several = 0};

    scene.topo = machine(scene.spec);
    scene.no_bound = tutti_bound_law_none(scene.topo);
    scene.ask = (struct tutti_ask){.size = sizeof(struct tutti_ask),
                                   .protocol = "none",
                                   .topo = scene.topo,
                                   .algorithm = "reduce-broadcast",
                                   .model = TUTTI_MODEL_FAIR,
                                   .reduce_bytes_per_s = UINT64_C(392779000000),
                                   .bound_law = &scene.no_bound,
                                   .params = {.collective = TUTTI_ALLREDUCE,
                                              .dtype = TUTTI_FLOAT32,
                                              .op = TUTTI_SUM,
                                              .count = 480,
                                              .channel_count = 1,
                                              .chunk_bytes = 216,
                                              .slice_count = 1,
                                              .slot_count = TUTTI_SLOTS_DEFAULT}};
    compare(&scene, 0, &tally);
    CHECK_INT(tally.drawn[SWITCH][0], 1);
    scene_close(&scene);
}
