/* What making a machine and asking it costs, in CPU time. Usage: topo_bench SPEC... */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "topo/topo.h"

enum { LINKS_MAX = 1024, TURNS_MIN = 1000 };

static const double seconds_min = 0.02; /* of one figure */

static double cpu_seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct tutti_topo *make(const char *spec)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    if (tutti_topo_from_spec(spec, &topo, &err) < 0) {
        fprintf(stderr, "topo_bench: %s\n", err.text);
        exit(1);
    }
    return topo;
}

/* One question about number `turn`; what it answers is added up, so that it is really asked. */
typedef uint64_t question(const struct tutti_topo *topo, uint32_t turn);

static uint64_t ask_next(const struct tutti_topo *topo, uint32_t turn)
{
    uint32_t links[LINKS_MAX];
    uint32_t from = turn % topo->rank_count;

    return tutti_topo_route(topo, from, from + 1 < topo->rank_count ? from + 1 : 0, links,
                            LINKS_MAX);
}

/* The rank one host, or one step along the second axis, or half of all further. */
static uint64_t ask_across(const struct tutti_topo *topo, uint32_t turn)
{
    const struct tutti_shape *shape = &topo->shape;
    uint32_t links[LINKS_MAX];
    uint32_t from = turn % topo->rank_count;
    uint32_t step = shape->level_count > 1 ? shape->level[0]
                    : shape->dim_count > 1 ? shape->dim[0]
                                           : 1;

    return tutti_topo_route(topo, from, (uint32_t)(((uint64_t)from + step) % topo->rank_count),
                            links, LINKS_MAX);
}

/* Links in no order. */
static uint64_t ask_link(const struct tutti_topo *topo, uint32_t turn)
{
    return tutti_topo_link(topo, (uint32_t)((uint64_t)turn * 2654435761u % topo->link_count))
        .bytes_per_s;
}

/* All in a row; a turn is a block. */
static uint64_t ask_block(const struct tutti_topo *topo, uint32_t turn)
{
    struct tutti_link links[TUTTI_LINK_BLOCK];
    uint32_t blocks = topo->link_count / TUTTI_LINK_BLOCK;

    if (blocks == 0)
        return 0;
    return tutti_topo_links(topo, turn % blocks * TUTTI_LINK_BLOCK, links, TUTTI_LINK_BLOCK);
}

static double nanoseconds(const struct tutti_topo *topo, question *ask)
{
    double begin = cpu_seconds();
    uint64_t sum = 0;
    uint64_t turns = 0;
    double seconds;

    do {
        for (uint32_t i = 0; i < TURNS_MIN; i++)
            sum += ask(topo, (uint32_t)turns++);
        seconds = cpu_seconds() - begin;
    } while (seconds < seconds_min);
    return sum == UINT64_MAX ? 0 : seconds * 1e9 / (double)turns;
}

int main(int argc, char **argv)
{
    printf("%-26s %8s %8s %7s %6s %8s %9s %8s %9s\n", "topology", "ranks", "links", "made ms",
           "KiB", "next ns", "across ns", "link ns", "in blocks");
    for (int i = 1; i < argc; i++) {
        double begin = cpu_seconds();
        struct tutti_topo *topo = make(argv[i]);
        double made = cpu_seconds() - begin;

        printf("%-26s %8" PRIu32 " %8" PRIu32 " %7.2f %6zu %8.1f %9.1f %8.1f %9.1f\n", argv[i],
               topo->rank_count, topo->link_count, made * 1e3,
               tutti_arena_bytes(topo->arena) / 1024, nanoseconds(topo, ask_next),
               nanoseconds(topo, ask_across), nanoseconds(topo, ask_link),
               nanoseconds(topo, ask_block) / TUTTI_LINK_BLOCK);
        tutti_topo_free(topo);
    }
    return 0;
}
