/* What a channel takes from links (2.28.9 search.cc followPath). */
#include "sim/nccl/reserve.h"

#include <assert.h>

static struct tutti_nccl_link *back_of(const struct tutti_nccl_system *s,
                                       const struct tutti_nccl_link *link)
{
    return &s->nodes[link->to].links[link->back];
}

/* What a hop takes of the opposite direction: reading by old GPUs' ports, and POWER's NVLink. */
static int64_t back_claim(const struct tutti_nccl_system *s, const struct tutti_nccl_link *link,
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
struct claim {
    int64_t needed; /* a link must have so much left */
    int64_t taken;  /* NCCL subtracts floats and rounds to thousandths of GB/s, halves up */
};

static struct claim claim_of(int64_t kbyte_per_s)
{
    return (struct claim){.needed = (kbyte_per_s + 999) / 1000,
                          .taken = (kbyte_per_s + 499) / 1000};
}

/* What a way takes: of its links, of those of PCI, and for each the rate that the back claim is of.
 */
struct claims {
    struct claim plain, pci;
    int64_t plain_kbyte_per_s, pci_kbyte_per_s;
};

static struct claims claims_of(const struct tutti_nccl_path *path, int64_t kbyte_per_s)
{
    struct claims claims = {.plain = claim_of(kbyte_per_s), .plain_kbyte_per_s = kbyte_per_s};

    claims.pci = claims.plain;
    claims.pci_kbyte_per_s = kbyte_per_s;
    if (path->pays_packets) {
        claims.pci_kbyte_per_s = kbyte_per_s * 6 / 5;
        claims.pci = claim_of(claims.pci_kbyte_per_s);
    }
    return claims;
}

/* Of the opposite direction of a hop. */
static struct claim back_of_hop(const struct tutti_nccl_system *s,
                                const struct tutti_nccl_link *link, enum tutti_nccl_kind from,
                                const struct claims *claims)
{
    return claim_of(back_claim(s, link, from,
                               link->type == TUTTI_PATH_PIX ? claims->pci_kbyte_per_s
                                                            : claims->plain_kbyte_per_s));
}

static void put_back(const struct tutti_nccl_system *s, const struct tutti_nccl_path *path,
                     uint32_t hop_count, enum tutti_nccl_kind from, const struct claims *claims)
{
    for (uint32_t h = 0; h < hop_count; h++) {
        struct tutti_nccl_link *link = path->hops[h];

        link->left_mbyte_per_s +=
            link->type == TUTTI_PATH_PIX ? claims->pci.taken : claims->plain.taken;
        if (path->pays_back)
            back_of(s, link)->left_mbyte_per_s += back_of_hop(s, link, from, claims).taken;
    }
}

static bool pay(struct tutti_nccl_walk *walk, const struct tutti_nccl_path *path,
                enum tutti_nccl_kind from, const struct claims *claims)
{
    const struct tutti_nccl_system *s = walk->system;

    for (uint32_t h = 0; h < path->hop_count; h++) {
        struct tutti_nccl_link *link = path->hops[h];
        const struct claim *claim = link->type == TUTTI_PATH_PIX ? &claims->pci : &claims->plain;
        bool enough = link->left_mbyte_per_s >= claim->needed;

        if (enough && path->pays_back) {
            struct claim back = back_of_hop(s, link, from, claims);

            enough = back_of(s, link)->left_mbyte_per_s >= back.needed;
            if (enough)
                back_of(s, link)->left_mbyte_per_s -= back.taken;
        }
        if (!enough) {
            walk->limiting_factor.rate = true;
            put_back(s, path, h, from, claims);
            return false;
        }
        link->left_mbyte_per_s -= claim->taken;
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
                         struct tutti_nccl_end to, const struct tutti_nccl_path *path,
                         uint8_t allowed)
{
    struct tutti_nccl_limiting_factor *h = &walk->limiting_factor;
    bool intra = is_inside(from.kind) && is_inside(to.kind);
    bool out = to.kind == TUTTI_NCCL_NET;

    note_type(intra ? &h->type_intra
              : out ? &h->type_to_net
                    : &h->type_from_net,
              path->type, allowed);
    if (is_tree(walk->now.pattern))
        note_type(intra ? &h->type_intra
                  : out ? &h->type_from_net
                        : &h->type_to_net,
                  path->type_back, allowed);
}

/* In trees data go both ways. */
static bool type_is_allowed(struct tutti_nccl_walk *walk, struct tutti_nccl_end from,
                            struct tutti_nccl_end to, const struct tutti_nccl_path *path)
{
    bool intra = is_inside(from.kind) && is_inside(to.kind);
    uint8_t allowed = intra ? walk->now.type_intra : walk->now.type_inter;

    if (path->type <= allowed && (path->type_back <= allowed || !is_tree(walk->now.pattern)))
        return true;
    note_refusal(walk, from, to, path, allowed);
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

bool tutti_nccl_reserve(struct tutti_nccl_walk *walk, struct tutti_nccl_end from,
                        struct tutti_nccl_end to, uint32_t numerator, uint32_t denominator)
{
    const struct tutti_nccl_path *path =
        tutti_nccl_path(walk->system, from.kind, from.place, to.kind, to.place);
    bool whole = is_whole(from, to, numerator, denominator);
    struct claims claims;

    if (path->type >= TUTTI_PATH_DIS || (whole && !type_is_allowed(walk, from, to, path)))
        return false;
    claims = claims_of(path, rate_of(walk, from, to, numerator, denominator));
    if (!pay(walk, path, from.kind, &claims))
        return false;
    walk->now.hop_count += whole ? path->hop_count : path->hop_count * numerator / denominator;
    return true;
}

void tutti_nccl_give(struct tutti_nccl_walk *walk, struct tutti_nccl_end from,
                     struct tutti_nccl_end to, uint32_t numerator, uint32_t denominator)
{
    const struct tutti_nccl_path *path =
        tutti_nccl_path(walk->system, from.kind, from.place, to.kind, to.place);
    struct claims claims = claims_of(path, rate_of(walk, from, to, numerator, denominator));

    put_back(walk->system, path, path->hop_count, from.kind, &claims);
    walk->now.hop_count -= is_whole(from, to, numerator, denominator)
                               ? path->hop_count
                               : path->hop_count * numerator / denominator;
}
