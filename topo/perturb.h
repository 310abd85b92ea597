/* Perturbations: what is not as it should be in a machine (slow links, a slow node, latencies that
 * differ), and ranks that start late. What is random is drawn under a seed. */
#ifndef TUTTI_TOPO_PERTURB_H
#define TUTTI_TOPO_PERTURB_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/api.h"
#include "topo/topo.h"

TUTTI_API_BEGIN

struct tutti_err;

/* Factors are decimals with up to six places, reckoned in millionths: no floating point, so the
 * same numbers on every machine. A cable is all links between two nodes, both ways. */
enum tutti_perturb_kind {
    TUTTI_PERTURB_RATES,     /* every cable's rate, times one of `factors`, drawn for it */
    TUTTI_PERTURB_SLOW_NODE, /* rates inside, out of and into some hosts, divided by a factor */
    TUTTI_PERTURB_SLOW_LINK, /* rates of some cables, divided by a factor */
    TUTTI_PERTURB_LATENCY,   /* every cable's latency, times a factor drawn for it */
    TUTTI_PERTURB_START,     /* ranks begin at times drawn for them */
    TUTTI_PERTURB_ECMP,      /* the spine of each flow is drawn: topo/graph/routes.h */
    TUTTI_PERTURB_KIND_COUNT
};

/* Whom a slow node or a slow link names. */
enum tutti_perturb_whom {
    TUTTI_PERTURB_ALL,     /* rates, latency, start, ecmp */
    TUTTI_PERTURB_COUNT,   /* `number` of them, drawn */
    TUTTI_PERTURB_PERCENT, /* `number` millionths of a percent of them, drawn */
    TUTTI_PERTURB_NAMED,   /* `name`: a node, "hostN", or "NODE-NODE" */
};

enum {
    TUTTI_PERTURB_ITEMS_MAX = 64,
    TUTTI_PERTURB_FACTORS_MAX = 16,
    TUTTI_PERTURB_TEXT_BYTES = 160, /* two names and a factor */
};

struct tutti_perturb_item {
    char text[TUTTI_PERTURB_TEXT_BYTES]; /* as it was typed: "slow-link=1:2" */
    enum tutti_perturb_kind kind;
    enum tutti_perturb_whom whom;
    uint32_t turn; /* items of this kind before it: each draws anew */
    uint64_t number;
    char name[TUTTI_PERTURB_TEXT_BYTES];
    uint32_t factor_count;
    uint64_t factors[TUTTI_PERTURB_FACTORS_MAX]; /* in millionths; latency: lowest and highest */
    tutti_ps start_ps_max;
    /* What it came to, once the machine has been perturbed. */
    uint64_t host_count; /* slow nodes: hosts, or, where there are none or by name, nodes */
    uint64_t link_count; /* whose rate or latency it set: one direction each */
    uint64_t rank_count; /* that start late */
    char first[TUTTI_PERTURB_TEXT_BYTES]; /* the first of the slow ones: "dev0-dev1", "host7" */
};

/* All that is to be perturbed, in the order given; no items: nothing. Plain data. */
struct tutti_perturb {
    uint32_t item_count;
    struct tutti_perturb_item items[TUTTI_PERTURB_ITEMS_MAX];
};

/* Adds the items of a list with commas:
 *   slow-link=A-B:F       the cable between nodes A and B, at 1/F of its rate both ways; F from 1
 *   slow-link=N:F N%:F    N cables drawn at random; N % of all links, rounded to whole cables, but
 *                         one at least
 *   slow-node=NAME:F      all links of a host ("host3") or of a node ("gpu0.3"), likewise
 *   slow-node=N:F N%:F    of N hosts drawn at random, or N devices where there are no hosts
 *   latency=LOW..HIGH     each cable's latency times a factor drawn uniformly; LOW alone: that one
 *   rates=F/F/F           each cable's rate times one of the factors, drawn at random
 *   start=TIME            each rank begins at a time drawn uniformly from 0 to TIME
 *   ecmp=hash             each flow between two NICs takes a spine drawn for it, as switches with
 *                         ECMP have it, so that some get several and others none; without it flows
 *                         are spread evenly, as adaptive routing comes close to
 * latency, rates, start and ecmp may stand there once, and nothing twice. -TUTTI_EINVAL shows what
 * would be accepted.
 */
int tutti_perturb_add(struct tutti_perturb *perturb, const char *words, struct tutti_err *err);

/* Are the names there, as many hosts or devices as are wanted, and spines to draw from? For
 * machines that are to be asked something before they are perturbed. */
int tutti_perturb_check(const struct tutti_topo *topo, const struct tutti_perturb *perturb,
                        struct tutti_err *err);

/* Changes the links of a machine that nobody else reads yet, and says in its `source` that it did.
 * Only rates and latencies change, and, by ecmp alone, routes: else these, ring orders and shape
 * stay those of the machine as it should be (whoever writes it to a file and reads that may get
 * others, where they are searched; a file says nothing of routes that were drawn).
 * Bounds are asked of the changed links, so they are those of the perturbed machine.
 *
 * A draw is a hash of seed, kind and turn of the item, and of the cable's nodes (the host's number,
 * the rank): it does not depend on what else is perturbed, and a machine read back from a file
 * draws the same. The N slow ones are those of the least hashes, so N + 1 are the same and one
 * more. Rates come first, then slow nodes, then slow links; each slows a link once, also between
 * two slow hosts. A rate stays at least 1 B/s. O(links) an item, and memory for those drawn.
 *
 * -TUTTI_EINVAL: a name that is not there, more wanted than there are, or no choice of routes; the
 * machine may have been changed in part by then. What each item came to is written to it. */
int tutti_topo_perturb(struct tutti_topo *topo, struct tutti_perturb *perturb, uint64_t seed,
                       struct tutti_err *err);

/* When each rank begins, *ret[rank_count], to be freed by the caller; NULL: all at once. */
int tutti_perturb_starts(struct tutti_perturb *perturb, uint64_t seed, uint32_t rank_count,
                         tutti_ps **ret, struct tutti_err *err);

/* The first item of a kind, or NULL. */
const struct tutti_perturb_item *tutti_perturb_find(const struct tutti_perturb *perturb,
                                                    enum tutti_perturb_kind kind);

const char *tutti_perturb_kind_name(enum tutti_perturb_kind kind); /* "slow-link", ... */

TUTTI_API_END

#endif
