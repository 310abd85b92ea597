/* Golden record hashes: what is simulated, and when, is the same for every compiler, optimisation
 * and machine. TUTTI_UPDATE_GOLDEN=1 writes the table anew where schedules or machines changed. */
#include "runtime/record.h"
#include "runtime/status.h"
#include "sim/predict.h"
#include "tests/test.h"

static const char *const machines[] = {
    "dgx-h100",
    "dgx-h100:nodes=2",
    "dgx-1v",
    "pcie:gpus=4",
    "ring:n=5,bw=50GB/s,lat=1us",
    "ring:n=12,bw=7GB/s,lat=333ns",
    "switch:n=6,bw=50GB/s,lat=1us",
    "torus:4x3x2,bw=45GB/s,lat=1us",
    "fattree:arity=4,levels=2,over=2",
    "tpu-v4:2x2x4",
};

/* How a case is played. The odd rates and shares are there to make the numbers awkward. */
struct manner {
    enum tutti_model model;
    const char *protocol;
    double jitter;
    uint64_t seed;
    uint64_t reduce_bytes_per_s;
    uint32_t channel_count;
    uint64_t chunk_bytes;
    uint32_t slice_count;
    uint32_t slot_count;
    uint64_t bytes;
};

static const struct manner manners[] = {
    {TUTTI_MODEL_ALPHABETA, "none", 0, 0, 0, 0, 0, 0, 0, 1000000},
    {TUTTI_MODEL_FAIR, "none", 0, 0, 0, 0, 0, 0, 0, 1000000},
    {TUTTI_MODEL_ALPHABETA, "ll", 0.3, 7, 0, 2, 4096, 1, 2, 100004},
    {TUTTI_MODEL_FAIR, "simple", 0.3, 11, 0, 2, 10000, 2, 3, 300004},
    {TUTTI_MODEL_ALPHABETA, "ll128", 0.01, 42, UINT64_C(123456789012), 1, 0, 2, 8, 44},
    {TUTTI_MODEL_FAIR, "ll128", 2.5, UINT64_MAX, UINT64_C(33333333333), 3, 30000, 3, 4, 400000},
};

enum {
    MACHINES = sizeof(machines) / sizeof(machines[0]),
    MANNERS = sizeof(manners) / sizeof(manners[0]),
    TEXT_BYTES = 1 << 18,
};

struct table {
    char *text;
    size_t used;
};

static void add_line(struct table *table, const struct manner *m, const struct tutti_ask *ask,
                     const struct tutti_answer *answer, uint64_t hash)
{
    int length = snprintf(table->text + table->used, TEXT_BYTES - table->used,
                          "%s %s %s %" PRIu64 " B %s %s jitter %g seed %" PRIu64 ": %" PRId64
                          " ps %016" PRIx64 "\n",
                          ask->topo->name, tutti_collective_name(ask->params.collective),
                          ask->algorithm, answer->bytes, tutti_model_name(m->model), m->protocol,
                          m->jitter, m->seed, answer->time_ps, hash);

    if (length > 0 && (size_t)length < TEXT_BYTES - table->used)
        table->used += (size_t)length;
    else
        TEST_FAIL("the table is full");
}

/* Plays one case and adds its line; algorithms that do not fit the machine have none. */
static void play_case(struct table *table, const struct tutti_topo *topo, const char *algorithm,
                      enum tutti_collective collective, const struct manner *m)
{
    struct tutti_record record;
    struct tutti_answer answer;
    struct tutti_err err = {.text = ""};
    struct tutti_ask ask = {
        .size = sizeof(struct tutti_ask),
        .protocols = tutti_protocols(NULL),
        .topo = topo,
        .algorithm = algorithm,
        .params = {.collective = collective,
                   .dtype = TUTTI_FLOAT32,
                   .op = TUTTI_SUM,
                   .root = topo->rank_count / 2,
                   .count = tutti_collective_count_for(collective, m->bytes, TUTTI_FLOAT32,
                                                       topo->rank_count),
                   .channel_count = m->channel_count,
                   .chunk_bytes = m->chunk_bytes,
                   .slice_count = m->slice_count,
                   .slot_count = m->slot_count},
        .protocol = m->protocol,
        .model = m->model,
        .seed = m->seed,
        .jitter = m->jitter,
        .reduce_bytes_per_s = m->reduce_bytes_per_s,
        .record = &record,
        .empty = true,
    };
    int status;

    if (collective == TUTTI_BARRIER)
        ask.params.count = 0;
    tutti_record_init(&record);
    status = tutti_predict(&ask, &answer, &err);
    if (status == 0)
        add_line(table, m, &ask, &answer, tutti_record_hash(&record, 1));
    else
        CHECK_INT(status, -TUTTI_EINVAL);
    tutti_record_done(&record);
}

/* The first of the two manners of a case, by its names alone: an algorithm or a machine more leaves
 * all other lines of the table as they are. (FNV-1a.) */
static size_t first_manner(const char *machine, const char *algorithm,
                           enum tutti_collective collective)
{
    const char *const words[] = {machine, algorithm, tutti_collective_name(collective)};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        for (const char *p = words[i]; *p != '\0'; p++)
            hash = (hash ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    return (size_t)((hash >> 32) % MANNERS);
}

/* Every algorithm of every collective, on every machine, played in two of the manners, of which the
 * models are not the same. */
TEST(record_hashes_are_golden)
{
    struct table table = {.text = calloc(1, TEXT_BYTES)};
    struct tutti_err err = {.text = ""};
    size_t algorithm_count = 0;
    unsigned played[MANNERS] = {0};
    const struct tutti_algorithm *algorithms = tutti_algorithms(&algorithm_count);

    REQUIRE(table.text != NULL);
    for (uint32_t i = 0; i < MACHINES; i++) {
        struct tutti_topo *topo = NULL;

        CHECK_OK(tutti_topo_from_spec(machines[i], &topo, &err), err);
        REQUIRE(topo != NULL);
        for (size_t c = 0; c < TUTTI_CUSTOM * algorithm_count; c++) {
            const struct tutti_algorithm *algorithm = &algorithms[c % algorithm_count];
            enum tutti_collective collective = (enum tutti_collective)(c / algorithm_count);

            if ((algorithm->collectives & 1u << (unsigned)collective) == 0)
                continue;
            for (size_t turn = 0; turn < 2; turn++) {
                size_t m =
                    (first_manner(machines[i], algorithm->name, collective) + turn) % MANNERS;

                play_case(&table, topo, algorithm->name, collective, &manners[m]);
                played[m]++;
            }
        }
        tutti_topo_free(topo);
    }
    for (size_t m = 0; m < MANNERS; m++)
        CHECK(played[m] > MACHINES * algorithm_count / MANNERS);
    test_golden("record_hash.txt", table.text);
    free(table.text);
}
