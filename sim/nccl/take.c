/* What a channel takes from links (2.28.9 search.cc followPath). */
#include "sim/nccl/take.h"

#include <assert.h>

static struct tutti_nccl_link *back_of(const struct tutti_nccl_system *s,
                                       const struct tutti_nccl_link *link)
{
    return &s->nodes[link->to].links[link->back];
}

/* What a hop takes of the opposite direction: reading by old GPUs' ports, and POWER's NVLink. */
static int64_t back_toll(const struct tutti_nccl_system *s, const struct tutti_nccl_link *link,
                         enum tutti_nccl_kind from, int64_t there)
{
    const struct tutti_nccl_node *to = &s->nodes[link->to];

    if (to->kind == TUTTI_NCCL_GPU && from != TUTTI_NCCL_GPU &&
        s->hardware->gpus[to->source].sm < 80)
        return there / 8;
    if (to->kind == TUTTI_NCCL_CPU && link->type == TUTTI_PATH_NVL &&
        s->hardware->cpus[to->source].arch == TUTTI_ARCH_PPC64)
        return there;
    return 0;
}

/* A rate as links are asked for it, in thousandths of GB/s. */
struct toll {
    int64_t needed; /* a link must have so much left */
    int64_t taken;  /* NCCL subtracts floats and rounds to thousandths of GB/s, halves up */
};

static struct toll toll_of(int64_t kbyte_per_s)
{
    return (struct toll){.needed = (kbyte_per_s + 999) / 1000, .taken = (kbyte_per_s + 499) / 1000};
}

/* What a way takes: of its links, of those of PCI, and for each the rate that the back toll is of.
 */
struct tolls {
    struct toll plain, pci;
    int64_t plain_kbyte_per_s, pci_kbyte_per_s;
};

static struct tolls tolls_of(const struct tutti_nccl_way *way, int64_t kbyte_per_s)
{
    struct tolls tolls = {.plain = toll_of(kbyte_per_s), .plain_kbyte_per_s = kbyte_per_s};

    tolls.pci = tolls.plain;
    tolls.pci_kbyte_per_s = kbyte_per_s;
    if (way->pays_packets) {
        tolls.pci_kbyte_per_s = kbyte_per_s * 6 / 5;
        tolls.pci = toll_of(tolls.pci_kbyte_per_s);
    }
    return tolls;
}

/* Of the opposite direction of a hop. */
static struct toll back_of_hop(const struct tutti_nccl_system *s,
                               const struct tutti_nccl_link *link, enum tutti_nccl_kind from,
                               const struct tolls *tolls)
{
    return toll_of(back_toll(s, link, from,
                             link->type == TUTTI_PATH_PIX ? tolls->pci_kbyte_per_s
                                                          : tolls->plain_kbyte_per_s));
}

static void put_back(const struct tutti_nccl_system *s, const struct tutti_nccl_way *way,
                     uint32_t hop_count, enum tutti_nccl_kind from, const struct tolls *tolls)
{
    for (uint32_t h = 0; h < hop_count; h++) {
        struct tutti_nccl_link *link = way->hops[h];

        link->left_mbyte_per_s +=
            link->type == TUTTI_PATH_PIX ? tolls->pci.taken : tolls->plain.taken;
        if (way->pays_back)
            back_of(s, link)->left_mbyte_per_s += back_of_hop(s, link, from, tolls).taken;
    }
}

static bool pay(struct tutti_nccl_walk *walk, const struct tutti_nccl_way *way,
                enum tutti_nccl_kind from, const struct tolls *tolls)
{
    const struct tutti_nccl_system *s = walk->system;

    for (uint32_t h = 0; h < way->hop_count; h++) {
        struct tutti_nccl_link *link = way->hops[h];
        const struct toll *toll = link->type == TUTTI_PATH_PIX ? &tolls->pci : &tolls->plain;
        bool enough = link->left_mbyte_per_s >= toll->needed;

        if (enough && way->pays_back) {
            struct toll back = back_of_hop(s, link, from, tolls);

            enough = back_of(s, link)->left_mbyte_per_s >= back.needed;
            if (enough)
                back_of(s, link)->left_mbyte_per_s -= back.taken;
        }
        if (!enough) {
            walk->hindrance.rate = true;
            put_back(s, way, h, from, tolls);
            return false;
        }
        link->left_mbyte_per_s -= toll->taken;
        assert(link->left_mbyte_per_s >= 0);
    }
    return true;
}

static bool is_inside(enum tutti_nccl_kind kind)
{
    return kind == TUTTI_NCCL_GPU || kind == TUTTI_NCCL_NVS;
}

static bool is_tree(uint8_t pattern)
{
    return pattern == TUTTI_PATTERN_BALANCED_TREE || pattern == TUTTI_PATTERN_TREE ||
           pattern == TUTTI_PATTERN_SPLIT_TREE;
}

static void note_type(uint8_t *nearest, uint8_t type, uint8_t allowed)
{
    if (type > allowed && type < *nearest)
        *nearest = type;
}

/* Notes what was refused. */
static void note_refusal(struct tutti_nccl_walk *walk, struct tutti_nccl_end from,
                         struct tutti_nccl_end to, const struct tutti_nccl_way *way,
                         uint8_t allowed)
{
    struct tutti_nccl_hindrance *h = &walk->hindrance;
    bool intra = is_inside(from.kind) && is_inside(to.kind);
    bool out = to.kind == TUTTI_NCCL_NET;

    note_type(intra ? &h->type_intra
              : out ? &h->type_to_net
                    : &h->type_from_net,
              way->type, allowed);
    if (is_tree(walk->now.pattern))
        note_type(intra ? &h->type_intra
                  : out ? &h->type_from_net
                        : &h->type_to_net,
                  way->type_back, allowed);
}

/* In trees data go both ways. */
static bool type_is_allowed(struct tutti_nccl_walk *walk, struct tutti_nccl_end from,
                            struct tutti_nccl_end to, const struct tutti_nccl_way *way)
{
    bool intra = is_inside(from.kind) && is_inside(to.kind);
    uint8_t allowed = intra ? walk->now.type_intra : walk->now.type_inter;

    if (way->type <= allowed && (way->type_back <= allowed || !is_tree(walk->now.pattern)))
        return true;
    note_refusal(walk, from, to, way, allowed);
    return false;
}

static int64_t rate_of(const struct tutti_nccl_walk *walk, struct tutti_nccl_end from,
                       struct tutti_nccl_end to, uint32_t numerator, uint32_t denominator)
{
    bool intra = is_inside(from.kind) && is_inside(to.kind);
    int64_t rate = intra ? walk->now.intra_kbyte_per_s : walk->now.inter_kbyte_per_s;

    return denominator == 1 ? rate * numerator : rate * numerator / denominator;
}

/* A share of a port's rate counts as whole: trees go to a port from two GPUs, half and half. */
static bool is_whole(struct tutti_nccl_end from, struct tutti_nccl_end to, uint32_t numerator,
                     uint32_t denominator)
{
    return numerator == denominator || from.kind == TUTTI_NCCL_NET || to.kind == TUTTI_NCCL_NET;
}

bool tutti_nccl_take(struct tutti_nccl_walk *walk, struct tutti_nccl_end from,
                     struct tutti_nccl_end to, uint32_t numerator, uint32_t denominator)
{
    const struct tutti_nccl_way *way =
        tutti_nccl_way(walk->system, from.kind, from.place, to.kind, to.place);
    bool whole = is_whole(from, to, numerator, denominator);
    struct tolls tolls;

    if (way->type >= TUTTI_PATH_DIS || (whole && !type_is_allowed(walk, from, to, way)))
        return false;
    tolls = tolls_of(way, rate_of(walk, from, to, numerator, denominator));
    if (!pay(walk, way, from.kind, &tolls))
        return false;
    walk->now.hop_count += whole ? way->hop_count : way->hop_count * numerator / denominator;
    return true;
}

void tutti_nccl_give(struct tutti_nccl_walk *walk, struct tutti_nccl_end from,
                     struct tutti_nccl_end to, uint32_t numerator, uint32_t denominator)
{
    const struct tutti_nccl_way *way =
        tutti_nccl_way(walk->system, from.kind, from.place, to.kind, to.place);
    struct tolls tolls = tolls_of(way, rate_of(walk, from, to, numerator, denominator));

    put_back(walk->system, way, way->hop_count, from.kind, &tolls);
    walk->now.hop_count -= is_whole(from, to, numerator, denominator)
                               ? way->hop_count
                               : way->hop_count * numerator / denominator;
}
