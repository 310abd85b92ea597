/* Model A against NCCL itself: what a real 2.28.9 ran, by its own word, for ranks that shared one
 * GPU and believed that they were on hosts of one to eight H100: free to choose, or forced but for
 * the number of channels (tests/gpu/run.sh). */
#include <inttypes.h>
#include <strings.h>

#include "runtime/status.h"
#include "sim/nccl.h"
#include "tests/test.h"
#include "topo/topo.h"

enum { LINE_BYTES = 512, WORD_BYTES = 160 };

/* A run of sizes, by twos, with one choice. */
struct picks {
    char machine[WORD_BYTES];
    char env[WORD_BYTES];
    char collective[16];
    uint64_t first;
    uint64_t last;
    char algorithm[16];
    char protocol[16];
    uint32_t channel_count;
};

static struct tutti_nccl_comm *comm_of(const struct picks *picks, struct tutti_topo **ret_topo)
{
    struct tutti_nccl_comm *comm = NULL;
    struct tutti_nccl_env *env = NULL;
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_env_new(&env, &err), err);
    CHECK_OK(tutti_nccl_env_add(env, picks->env, &err), err);
    CHECK_OK(tutti_topo_from_spec(picks->machine, &topo, &err), err);
    CHECK_OK(tutti_nccl_comm_new(&(struct tutti_nccl_comm_params){.hardware = topo->hardware,
                                                                  .host_count = topo->host_count,
                                                                  .env = env},
                                 &comm, &err),
             err);
    tutti_nccl_env_free(env);
    *ret_topo = topo;
    return comm;
}

/* Sizes of which something else is chosen, each with a line. */
static unsigned count_others(const struct picks *picks, unsigned *sizes)
{
    struct tutti_topo *topo = NULL;
    struct tutti_nccl_comm *comm = comm_of(picks, &topo);
    enum tutti_collective collective = TUTTI_ALLREDUCE;
    struct tutti_err err = {""};
    unsigned others = 0;

    CHECK_OK(tutti_collective_find(picks->collective, &collective, &err), err);
    for (uint64_t bytes = picks->first; bytes <= picks->last; bytes *= 2, (*sizes)++) {
        struct tutti_nccl_choice choice;
        const char *algorithm, *protocol;

        CHECK_OK(
            tutti_nccl_choose(comm, collective, TUTTI_FLOAT32, TUTTI_SUM, bytes, &choice, &err),
            err);
        algorithm = tutti_nccl_algorithm_name((enum tutti_nccl_algorithm)choice.algorithm);
        protocol = tutti_nccl_protocol_name((enum tutti_nccl_protocol)choice.protocol);
        if (strcasecmp(algorithm, picks->algorithm) == 0 &&
            strcasecmp(protocol, picks->protocol) == 0 &&
            choice.channel_count == picks->channel_count)
            continue;
        others++;
        printf("%s %s %s of %" PRIu64 " B: NCCL ran %s/%s on %" PRIu32 ", model A %s/%s on %" PRIu32
               "\n",
               picks->machine, picks->env, picks->collective, bytes, picks->algorithm,
               picks->protocol, picks->channel_count, algorithm, protocol, choice.channel_count);
    }
    tutti_nccl_comm_free(comm);
    tutti_topo_free(topo);
    return others;
}

/* One file of picks: none differs from model A's. */
static void none_differs(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[LINE_BYTES];
    unsigned sizes = 0;
    unsigned others = 0;

    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        struct picks picks;

        if (line[0] == '#')
            continue;
        CHECK_INT(sscanf(line, "%159s %159s %15s %" SCNu64 " %" SCNu64 " %15s %15s %" SCNu32,
                         picks.machine, picks.env, picks.collective, &picks.first, &picks.last,
                         picks.algorithm, picks.protocol, &picks.channel_count),
                  8);
        others += count_others(&picks, &sizes);
    }
    fclose(file);
    printf("%u sizes\n", sizes);
    CHECK_INT(others, 0);
    CHECK(sizes > 2200);
}

TEST(algorithm_protocol_and_channels_are_those_that_nccl_took_on_one_h200)
{
    none_differs(TUTTI_SOURCE_DIR "/traces/measured/h200/picks.txt");
}

TEST(and_on_one_h100)
{
    none_differs(TUTTI_SOURCE_DIR "/traces/measured/h100/picks.txt");
}
